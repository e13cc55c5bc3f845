//! The host file of `--hostfile`: one host per line, first line first, so rank 0 is on the first.
//!
//! ```text
//! # comments begin a line, or follow a blank
//! node1 slots=4
//! node2:4              the form of `-H`
//! root@node3 slots=2   ssh logs in as root
//! [fd00::2] slots=2    an IPv6 address, or [fd00::2]:2
//! node4                one slot, as Open MPI has it
//! ```
//!
//! Lines may end with CR LF, and `slots = 4` may have blanks. Only the text is judged: reading the
//! file is the caller's, and whether a host exists is not asked.

use std::path::Path;

use super::host_list::{Host, parse_name, parse_slots, split_slots};
use crate::error::{Error, Result};

/// Reads the text of a host file; `file` is for the messages.
///
/// # Errors
/// Names the line that is wrong and says what would be right. A host on two lines is refused with
/// both lines: their slots would be numbered twice.
pub fn parse_hostfile(file: &Path, text: &str) -> Result<Vec<Host>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut hosts: Vec<(usize, Host)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let content = without_comment(line).trim();
        if content.is_empty() {
            continue;
        }
        let line = index + 1;
        let host = parse_line(content).map_err(|wrong| wrong.at(file, line, content))?;
        if let Some((first, known)) = hosts.iter().find(|(_, known)| known.is_same_host(&host)) {
            return Err(Error::HostFileDuplicate {
                file: file.to_owned(),
                host: written_name(content).to_owned(),
                first: *first,
                second: line,
                slots: known.slots + host.slots,
            });
        }
        hosts.push((line, host));
    }
    if hosts.is_empty() {
        let file = file.to_owned();
        return Err(Error::HostFileEmpty { file });
    }
    Ok(hosts.into_iter().map(|(_, host)| host).collect())
}

/// A `#` inside a word is no comment: it is a mistake in a name, and is said to be one.
fn without_comment(line: &str) -> &str {
    let mut after_blank = true;
    for (position, character) in line.char_indices() {
        if character == '#' && after_blank {
            return &line[..position];
        }
        after_blank = character.is_whitespace();
    }
    line
}

/// What is wrong with a line, before file and line are known.
enum Wrong {
    Text(&'static str),
    Field(String),
}

impl From<&'static str> for Wrong {
    fn from(problem: &'static str) -> Self {
        Self::Text(problem)
    }
}

impl Wrong {
    fn at(self, file: &Path, line: usize, content: &str) -> Error {
        let file = file.to_owned();
        match self {
            Self::Text(problem) => Error::HostFileSyntax {
                file,
                line,
                text: content.to_owned(),
                problem,
            },
            Self::Field(field) => Error::HostFileField {
                file,
                line,
                host: written_name(content).to_owned(),
                field,
            },
        }
    }
}

/// The host of a line as it was written: without slots, with user and brackets.
fn written_name(content: &str) -> &str {
    let item = content.split_whitespace().next().unwrap_or(content);
    split_slots(item).map_or(item, |(name, _)| name)
}

fn parse_line(content: &str) -> Result<Host, Wrong> {
    let (item, rest) = content
        .split_once(char::is_whitespace)
        .map_or((content, ""), |(item, rest)| (item, rest.trim()));
    if item.contains('=') {
        return Err("the host name is missing before the first field".into());
    }
    let (name, short) = split_slots(item)?;
    let name = parse_name(name)?;
    let long = parse_fields(rest)?;
    let slots = match (short, long) {
        (Some(_), Some(_)) => return Err("the slots are given twice".into()),
        (Some(slots), None) | (None, Some(slots)) => parse_slots(slots)?,
        (None, None) => 1,
    };
    Ok(Host { name, slots })
}

/// The value of `slots=` in what follows the host, if it is there; nothing else may be.
fn parse_fields(rest: &str) -> Result<Option<&str>, Wrong> {
    if rest.is_empty() {
        return Ok(None);
    }
    let (field, value) = rest.split_once('=').unwrap_or((rest, ""));
    let field = field.trim();
    if field != "slots" {
        return Err(Wrong::Field(field.to_owned()));
    }
    let mut words = value.split_whitespace();
    let slots = words.next().unwrap_or_default();
    match words.next() {
        None => Ok(Some(slots)),
        Some(word) => Err(Wrong::Field(
            word.split('=').next().unwrap_or(word).to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<Host>> {
        parse_hostfile(Path::new("hosts.txt"), text)
    }

    fn items(text: &str) -> Vec<String> {
        read(text).unwrap().iter().map(Host::to_string).collect()
    }

    fn refusal(text: &str) -> String {
        let error = read(text).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn every_way_of_writing_a_line() {
        let text = "\u{feff}# the cluster\r\nnode1 slots=4\r\n\r\n  node2:3 # two cards are broken\n\
                    root@node3\tslots = 2\n[fd00::2]:2\nme@[fd00::3] slots=1\n\t#end\nnode4";
        assert_eq!(
            items(text),
            [
                "node1:4",
                "node2:3",
                "root@node3:2",
                "[fd00::2]:2",
                "me@[fd00::3]:1",
                "node4:1"
            ]
        );
    }

    #[test]
    fn says_which_line_is_wrong_and_what_would_be_right() {
        assert_eq!(
            refusal("# head\nnode1 slots=4\nnode2 slots=x\n"),
            "line 3 of the host file `hosts.txt`, `node2 slots=x`: the slots are not a whole \
             number; write e.g. `node1 slots=4`"
        );
        assert_eq!(
            refusal("a\nb slots=2 max_slots=4"),
            "line 2 of the host file `hosts.txt`: `max_slots` is not known; only `slots=` may \
             follow the host, e.g. `b slots=4`"
        );
        assert!(refusal("[fd00::2]:1 cpu=2").contains("e.g. `[fd00::2] slots=4`"));
        assert!(refusal("a 4").contains("`4` is not known"));
        assert!(refusal("a slots=").contains("slots is missing"));
        assert!(refusal("a slots 4").contains("`slots 4` is not known"));
        assert!(refusal("a:2 slots=2").contains("given twice"));
        assert!(refusal("slots=2").contains("host name is missing"));
        assert!(refusal("node#1").contains("letters, digits"));
        assert!(refusal("a,b").contains("letters, digits"));
        assert!(refusal("fd00::2 slots=1").contains("in brackets"));
        assert!(refusal("a slots=65537").contains("65536"));
        assert!(refusal("# nobody\n\n").contains("lists no host"));
    }

    #[test]
    fn a_host_on_two_lines_names_both() {
        assert_eq!(
            refusal("a slots=2\n\nb\nroot@A:3\n"),
            "host `root@A` is on line 1 and on line 4 of the host file `hosts.txt`; keep one line \
             with all its slots, `root@A slots=5`"
        );
    }

    proptest! {
        #[test]
        fn comments_blanks_and_line_ends_change_nothing(
            slots in proptest::collection::vec((0_u32..100, 0_usize..4, 0_usize..4), 1..8)
        ) {
            let mut text = String::new();
            let mut expected = Vec::new();
            for (index, (slots, form, end)) in slots.into_iter().enumerate() {
                let name = format!("h{index}");
                let line = match form {
                    0 => format!("{name}:{slots}"),
                    1 => format!("{name} slots={slots}"),
                    2 => format!("  {name}\t slots =  {slots}  "),
                    _ => format!("u@{name}:{slots} # slots=9"),
                };
                text += &line;
                text += ["\n", "\r\n", " # x\n", "\n\n#y z\r\n"][end];
                let name = if form == 3 { format!("u@{name}") } else { name };
                expected.push(Host { name, slots });
            }
            prop_assert_eq!(read(&text).unwrap(), expected);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[-a@:=.0\\[\\]%,# é\t\r\nslots]{0,40}") {
            for host in read(&text).into_iter().flatten() {
                prop_assert!(!host.name.starts_with('-'));
            }
        }
    }
}
