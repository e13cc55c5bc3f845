//! The last lines a rank wrote to stderr, for the report of its failure. Bounded in lines and in
//! bytes per line. A progress bar counts as one line: what `\r` would overwrite on a terminal is
//! overwritten here too.

use std::collections::VecDeque;

use hvd_types::printable;

/// Lines kept.
const LINES: usize = 20;

/// Bytes kept of one line.
const BYTES: usize = 2000;

/// The end of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<Vec<u8>>,
    current: Vec<u8>,
    overwrite: bool,
}

impl Tail {
    /// Takes the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                b'\r' => self.overwrite = true,
                _ => self.add(byte),
            }
        }
    }

    fn add(&mut self, byte: u8) {
        if std::mem::take(&mut self.overwrite) {
            self.current.clear();
        }
        if self.current.len() < BYTES {
            self.current.push(byte);
        }
    }

    fn end_line(&mut self) {
        self.overwrite = false;
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(std::mem::take(&mut self.current));
    }

    /// The lines as text, oldest first; bytes that are no text and control characters are shown as
    /// such.
    pub(super) fn into_lines(mut self) -> Vec<String> {
        if !self.current.is_empty() {
            self.end_line();
        }
        self.lines
            .iter()
            .map(|line| printable(&String::from_utf8_lossy(line)).into_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut tail = Tail::default();
        tail.push(bytes);
        tail.into_lines()
    }

    #[test]
    fn keeps_the_last_lines_only() {
        let text: Vec<String> = (0..50).map(|number| format!("line {number}\n")).collect();
        let kept = lines(text.concat().as_bytes());
        assert_eq!((kept.len(), kept[0].as_str()), (LINES, "line 30"));
        assert_eq!(kept[LINES - 1], "line 49");
    }

    #[test]
    fn a_progress_bar_is_one_line_and_an_unfinished_line_counts() {
        assert_eq!(
            lines(b"10%\r20%\r30%\r\nerror\r\nlast"),
            ["30%", "error", "last"]
        );
    }

    #[test]
    fn long_lines_and_odd_bytes_are_tamed() {
        assert_eq!(lines(&[b'x'; 5000])[0].len(), BYTES);
        assert_eq!(lines(b"\xffok\n"), ["\u{fffd}ok"]);
        assert_eq!(
            lines(b"\x1b[31mred\x1b]0;title\x07\n"),
            ["\\x1b[31mred\\x1b]0;title\\x07"]
        );
    }
}
