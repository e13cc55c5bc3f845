//! Which job this is, as a short text:
//!
//! ```text
//! <pid of horovodrun> <pid of the driver> <age in milliseconds> <number of ranks>
//! <pid> <host>                one line per rank
//! <the command, to the end>
//! ```

use std::{fmt::Write as _, time::Duration};

/// One running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDescription {
    /// The process the user started.
    pub supervisor: i32,
    /// The process that does the launcher's work.
    pub driver: i32,
    /// For how long it runs.
    pub age: Duration,
    /// The command of every rank, as one line.
    pub command: String,
    /// The ranks, in their order.
    pub ranks: Vec<JobRank>,
}

/// One rank, as the launcher knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRank {
    /// Its process.
    pub pid: i32,
    /// Where it runs.
    pub host: String,
}

impl JobDescription {
    pub(super) fn to_text(&self) -> String {
        let Self {
            supervisor,
            driver,
            age,
            command,
            ranks,
        } = self;
        let mut text = format!(
            "{supervisor} {driver} {} {}\n",
            age.as_millis(),
            ranks.len()
        );
        for JobRank { pid, host } in ranks {
            let _ = writeln!(text, "{pid} {host}");
        }
        text + command
    }

    /// Reads a description; `None` if it is none.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let (head, mut rest) = text.split_once('\n')?;
        let mut numbers = head.split(' ');
        let supervisor = numbers.next()?.parse().ok()?;
        let driver = numbers.next()?.parse().ok()?;
        let age = Duration::from_millis(numbers.next()?.parse().ok()?);
        let count: usize = numbers.next()?.parse().ok()?;
        let mut ranks = Vec::new();
        for _ in 0..count {
            let (line, after) = rest.split_once('\n')?;
            let (pid, host) = line.split_once(' ')?;
            ranks.push(JobRank {
                pid: pid.parse().ok()?,
                host: host.to_owned(),
            });
            rest = after;
        }
        Some(Self {
            supervisor,
            driver,
            age,
            command: rest.to_owned(),
            ranks,
        })
    }

    /// Whether a word of the user's means this job: the number of any of its processes, or a part of
    /// its command.
    pub fn is_meant_by(&self, word: &str) -> bool {
        match word.parse::<i32>() {
            Ok(pid) => {
                let ranks = self.ranks.iter().map(|member| member.pid);
                [self.supervisor, self.driver]
                    .into_iter()
                    .chain(ranks)
                    .any(|it| it == pid)
            }
            Err(_) => self.command.contains(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn description() -> JobDescription {
        let member = |pid| JobRank {
            pid,
            host: "localhost".to_owned(),
        };
        JobDescription {
            supervisor: 10,
            driver: 11,
            age: Duration::from_millis(1500),
            command: "python train.py\n--epochs 3".to_owned(),
            ranks: vec![member(12), member(13)],
        }
    }

    #[test]
    fn a_description_comes_back() {
        let description = description();
        assert_eq!(
            JobDescription::from_text(&description.to_text()),
            Some(description)
        );
    }

    #[test]
    fn a_job_is_meant_by_any_of_its_processes_or_a_part_of_its_command() {
        let description = description();
        for word in ["10", "11", "12", "13", "train.py", "--epochs"] {
            assert!(description.is_meant_by(word), "{word}");
        }
        for word in ["14", "3", "eval.py"] {
            assert!(!description.is_meant_by(word), "{word}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text: String) {
            let _ = JobDescription::from_text(&text);
            let _ = JobDescription::from_text(&format!("1 2 3 99999999999\n{text}"));
        }
    }
}
