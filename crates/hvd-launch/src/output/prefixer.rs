//! The line prefixer: bytes of one stream of one rank in, the same bytes with a prefix at the
//! start of every line out. Pure; no I/O and no clock.
//!
//! * LINE-1 `\n`, `\r` or `\r\n` ends a line, so progress bars flow.
//! * LINE-2 a line leaves as soon as its end is seen; an unfinished one is held back until the
//!   stream ends, and then leaves without an invented line end.
//! * LINE-3 bytes are never changed, whatever their encoding.
//! * LINE-4 at most [`LINE_LIMIT`] bytes are held back; a longer line is broken by a `\n`, and goes
//!   on with a prefix of its own.

use crate::process::{Stream, WallClock, local_time};

/// The most bytes of an unfinished line that are held back.
pub(super) const LINE_LIMIT: usize = 1 << 20;

/// Prefixes the lines of one stream.
#[derive(Debug)]
pub(super) struct Prefixer {
    tag: String,
    held: Vec<u8>,
    after_carriage_return: bool,
    limit: usize,
}

impl Prefixer {
    /// A prefixer for one stream of one rank.
    pub(super) fn new(rank: hvd_types::Rank, stream: Stream) -> Self {
        let tag = format!("[{rank}]<{}>:", stream.name());
        Self {
            tag,
            held: Vec::new(),
            after_carriage_return: false,
            limit: LINE_LIMIT,
        }
    }

    /// Takes what was read and appends all lines that are now complete to `out`; `stamp` is what
    /// goes in front of each prefix, or nothing.
    pub(super) fn push(&mut self, mut bytes: &[u8], stamp: &str, out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if std::mem::take(&mut self.after_carriage_return) && bytes[0] == b'\n' {
            out.push(b'\n');
            bytes = &bytes[1..];
        }
        while let Some(end) = line_end(bytes) {
            let (line, rest) = bytes.split_at(end);
            self.after_carriage_return = rest.is_empty() && line.ends_with(b"\r");
            self.emit(line, stamp, out);
            bytes = rest;
        }
        self.hold(bytes, stamp, out);
    }

    /// The stream has ended: what was held back leaves as it is.
    pub(super) fn finish(&mut self, stamp: &str, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            self.emit(&[], stamp, out);
        }
    }

    fn hold(&mut self, mut bytes: &[u8], stamp: &str, out: &mut Vec<u8>) {
        while self.held.len() + bytes.len() > self.limit {
            let (piece, rest) = bytes.split_at(self.limit - self.held.len());
            self.emit(piece, stamp, out);
            out.push(b'\n');
            bytes = rest;
        }
        self.held.extend_from_slice(bytes);
    }

    fn emit(&mut self, end_of_line: &[u8], stamp: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(stamp.as_bytes());
        out.extend_from_slice(self.tag.as_bytes());
        out.append(&mut self.held);
        out.extend_from_slice(end_of_line);
    }
}

/// The length of the first line of `bytes` with its end, if the end is there.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let end = bytes
        .iter()
        .position(|byte| matches!(byte, b'\n' | b'\r'))?;
    let pair = bytes[end] == b'\r' && bytes.get(end + 1) == Some(&b'\n');
    Some(end + if pair { 2 } else { 1 })
}

/// A moment in the C style, `Mon Jan 20 12:00:01 2020`, local time.
pub(super) fn stamp(seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let Some(WallClock {
        weekday,
        month,
        day,
        hour,
        minute,
        second,
        year,
    }) = local_time(seconds)
    else {
        return seconds.to_string();
    };
    let (weekday, month) = (DAYS[weekday % 7], MONTHS[month % 12]);
    format!("{weekday} {month} {day:>2} {hour:02}:{minute:02}:{second:02} {year}")
}

#[cfg(test)]
mod tests {
    use hvd_types::Rank;
    use proptest::prelude::*;

    use super::*;

    fn prefixer() -> Prefixer {
        Prefixer::new(Rank::new(0), Stream::Stdout)
    }

    fn all(chunks: &[&[u8]]) -> Vec<u8> {
        let (mut prefixer, mut out) = (prefixer(), Vec::new());
        for chunk in chunks {
            prefixer.push(chunk, "", &mut out);
        }
        prefixer.finish("", &mut out);
        out
    }

    fn text(chunks: &[&[u8]]) -> String {
        String::from_utf8(all(chunks)).unwrap()
    }

    #[test]
    fn line_1_every_kind_of_line_end_gets_the_next_line_a_prefix() {
        assert_eq!(text(&[b"a\nb\n"]), "[0]<stdout>:a\n[0]<stdout>:b\n");
        assert_eq!(
            text(&[b"10%\r20%\r", b"30%"]),
            "[0]<stdout>:10%\r[0]<stdout>:20%\r[0]<stdout>:30%"
        );
        assert_eq!(
            text(&[b"a\r\nb\r", b"\nc\n"]),
            "[0]<stdout>:a\r\n[0]<stdout>:b\r\n[0]<stdout>:c\n"
        );
        assert_eq!(
            text(&[b"a\r", b"", b"\n\n"]),
            "[0]<stdout>:a\r\n[0]<stdout>:\n"
        );
    }

    #[test]
    fn line_2_complete_lines_leave_at_once_and_incomplete_ones_at_the_end() {
        let (mut prefixer, mut out) = (prefixer(), Vec::new());
        prefixer.push(b"one\ntw", "", &mut out);
        assert_eq!(out, b"[0]<stdout>:one\n");
        prefixer.push(b"o", "", &mut out);
        assert_eq!(out, b"[0]<stdout>:one\n");
        prefixer.finish("", &mut out);
        assert_eq!(out, b"[0]<stdout>:one\n[0]<stdout>:two");
        assert_eq!(text(&[b"a\n"]), "[0]<stdout>:a\n");
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn line_3_bytes_that_are_no_text_pass_unchanged() {
        assert_eq!(all(&[b"\xff\xfe\n", b"\xe2\x82", b"\xac\n"]), {
            let mut expected = b"[0]<stdout>:\xff\xfe\n[0]<stdout>:".to_vec();
            expected.extend_from_slice("€\n".as_bytes());
            expected
        });
    }

    #[test]
    fn line_4_an_endless_line_is_broken_instead_of_filling_the_memory() {
        let (mut prefixer, mut out) = (
            Prefixer {
                limit: 4,
                ..prefixer()
            },
            Vec::new(),
        );
        prefixer.push(b"abc", "", &mut out);
        prefixer.push(b"defghij", "", &mut out);
        assert!(prefixer.held.len() <= 4);
        prefixer.push(b"\n", "", &mut out);
        assert_eq!(out, b"[0]<stdout>:abcd\n[0]<stdout>:efgh\n[0]<stdout>:ij\n");
    }

    #[test]
    fn the_stamp_stands_directly_before_the_bracket() {
        let mut out = Vec::new();
        prefixer().push(b"a\nb\n", "NOW", &mut out);
        assert_eq!(out, b"NOW[0]<stdout>:a\nNOW[0]<stdout>:b\n");
        let stamp = stamp(1_579_521_601);
        assert_eq!(stamp.len(), "Mon Jan 20 12:00:01 2020".len());
        assert!(
            stamp.ends_with(":01 2020") && stamp.contains(" Jan "),
            "{stamp}"
        );
    }

    proptest! {
        #[test]
        fn where_reads_are_cut_does_not_matter(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..60),
            cut in 0_usize..60,
        ) {
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(all(&[left, right]), all(&[&bytes]));
        }
    }
}
