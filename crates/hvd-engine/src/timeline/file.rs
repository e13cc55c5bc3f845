//! A file that holds a complete JSON array after every write, also when the process is killed in
//! the middle of one.
//!
//! A killed process leaves a write unfinished at the border of a page, so no write of objects
//! crosses one. For that the closing bracket stands far ahead, and objects are written into the
//! white space before it; those that do not fit the rest of a page begin the next one:
//!
//! ```text
//! [ {..}, {..}   | , {..}, {..}  |               |              ]
//!                                 ^ end                         ^ bracket
//! ```
//!
//! When the space is used up, more is written behind the bracket, where it does no harm, and the
//! bracket is moved with two writes of one byte. Only a kill between these two, once in
//! [`SPACE`] bytes and about a microsecond long, leaves a file without its bracket; trace viewers
//! accept that. An object longer than a page takes several and has no such protection.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The smallest unit of memory in use; larger ones are multiples of it.
const PAGE: usize = 4096;
/// White space before the bracket when it has been moved.
const SPACE: usize = 256 << 10;

/// What a trace can be written to.
pub(super) trait Medium {
    /// Writes in one go, at a position.
    fn write_at(&mut self, bytes: &[u8], position: usize) -> io::Result<()>;
    /// Cuts off what is behind a position.
    fn truncate(&mut self, length: usize) -> io::Result<()>;
}

impl Medium for File {
    fn write_at(&mut self, bytes: &[u8], position: usize) -> io::Result<()> {
        self.write_all_at(bytes, position as u64)
    }

    fn truncate(&mut self, length: usize) -> io::Result<()> {
        self.set_len(length as u64)
    }
}

/// JSON objects to be added to an array, each after its comma.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) text: String,
    /// Where each of them ends.
    pub(super) ends: Vec<usize>,
}

/// A growing array of JSON objects.
pub(super) struct TraceFile<M> {
    medium: M,
    /// Behind the last object.
    end: usize,
    bracket: usize,
}

impl<M: Medium> TraceFile<M> {
    /// A file with its first objects.
    pub(super) fn create(mut medium: M, opening: &str) -> io::Result<Self> {
        let text = format!("[\n{opening}\n]\n");
        medium.write_at(text.as_bytes(), 0)?;
        Ok(Self {
            medium,
            end: text.len() - 3,
            bracket: text.len() - 2,
        })
    }

    /// Adds objects, a page at a time. If it fails, only [`Self::finish`] makes sense.
    pub(super) fn append(&mut self, objects: &Objects) -> io::Result<()> {
        let (mut start, mut end) = (0, 0);
        for &next in &objects.ends {
            if end > start && !self.fits(next - start) {
                self.write(&objects.text[start..end])?;
                start = end;
            }
            end = next;
        }
        self.write(&objects.text[start..end])
    }

    /// Whether so many bytes fit into the page that the last object ends on, or begins.
    fn fits(&self, length: usize) -> bool {
        self.end % PAGE + length <= PAGE
    }

    /// Where the next so many bytes go: right behind the last object, or onto the next page.
    fn place(&self, length: usize) -> usize {
        if self.fits(length) {
            self.end
        } else {
            self.end.next_multiple_of(PAGE)
        }
    }

    /// Gives back the space that was not needed. Also due after a failure, such as a full disk: it
    /// cuts off what was half written and closes the array behind the last whole object.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.medium.truncate(self.end)?;
        self.medium.write_at(b"\n]\n", self.end)
    }

    #[cfg(test)]
    pub(super) fn medium(&self) -> &M {
        &self.medium
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let start = self.place(text.len());
        let end = start + text.len();
        if end > self.bracket {
            self.make_space(end)?;
        }
        self.medium.write_at(text.as_bytes(), start)?;
        self.end = end;
        Ok(())
    }

    /// Moves the bracket well behind a position.
    fn make_space(&mut self, position: usize) -> io::Result<()> {
        let behind = self.bracket + 1;
        let bracket = (position + SPACE).next_multiple_of(PAGE) - 2;
        let mut space = vec![b' '; bracket + 1 - behind];
        space.push(b'\n');
        self.medium.write_at(&space, behind)?;
        self.medium.write_at(b" ", self.bracket)?;
        self.medium.write_at(b"]", bracket)?;
        self.bracket = bracket;
        Ok(())
    }
}
