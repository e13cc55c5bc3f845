//! A thread's call stack, and which of its frames describe best what the program is doing.

use std::fmt;

/// Whose code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Origin {
    /// The user's.
    #[default]
    Program = 0,
    /// An installed package's, or the language's own.
    Library = 1,
    /// Ours.
    Horovod = 2,
}

impl Origin {
    /// Every origin, by its number.
    pub const ALL: [Self; 3] = [Self::Program, Self::Library, Self::Horovod];
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackFrame {
    /// The source file.
    pub file: String,
    /// The line, counted from 1; 0 if it is unknown.
    pub line: u32,
    /// The function.
    pub function: String,
    /// Whose code it is.
    pub origin: Origin,
}

impl StackFrame {
    /// The file's last name; with its directory if the name alone says nothing.
    pub fn short_file(&self) -> &str {
        let mut slashes = self.file.rmatch_indices('/').map(|(index, _)| index);
        let last = slashes.next();
        let cut = if self.file.ends_with("/__init__.py") {
            slashes.next()
        } else {
            last
        };
        cut.map_or(&self.file, |index| &self.file[index + 1..])
    }
}

/// `train.py:42 in load_batch`.
impl fmt::Display for StackFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{} in {}",
            self.short_file(),
            self.line,
            self.function
        )
    }
}

/// One thread of the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadStack {
    /// Its name.
    pub name: String,
    /// Its calls, the innermost first.
    pub frames: Vec<StackFrame>,
}

/// What a thread is doing, in the few frames that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position<'a> {
    /// The innermost frame of the user's code, or the innermost of all.
    pub here: &'a StackFrame,
    /// Its caller, if that is the user's code too.
    pub caller: Option<&'a StackFrame>,
    /// The function of ours or of a library that it has called, if it is inside one.
    pub inside: Option<&'a StackFrame>,
}

impl ThreadStack {
    /// Its position; none if it has no frames.
    pub fn position(&self) -> Option<Position<'_>> {
        let is_program = |frame: &&StackFrame| frame.origin == Origin::Program;
        let index = self.frames.iter().position(|frame| is_program(&frame));
        let index = index.unwrap_or(0);
        let inside = index.checked_sub(1).map(|inner| &self.frames[inner]);
        Some(Position {
            here: self.frames.get(index)?,
            caller: self.frames[index + 1..].iter().find(is_program),
            inside,
        })
    }
}

impl Position<'_> {
    /// Whether the thread is inside one of our functions.
    pub fn is_in_horovod(&self) -> bool {
        let innermost = self.inside.unwrap_or(self.here);
        innermost.origin == Origin::Horovod
    }
}

/// `train.py:42 in load_batch (called from train.py:80 in main)`.
impl fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.here)?;
        match (self.inside, self.caller) {
            (Some(inside), Some(caller)) => {
                write!(f, " (inside {inside}; called from {caller})")
            }
            (Some(inside), None) => write!(f, " (inside {inside})"),
            (None, Some(caller)) => write!(f, " (called from {caller})"),
            (None, None) => Ok(()),
        }
    }
}
