//! What can go wrong when the ranks of a job meet.

use std::fmt;
use std::io;
use std::path::PathBuf;

use hvd_types::Rank;
use hvd_wire::frame::FrameTooLong;

/// This crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a meeting failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something, or a connection ended.
    #[error("{doing}: {source}{}", crate::limits::explain(source))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The system starts no more threads.
    #[error("cannot start the thread `{name}`: {source}{advice}")]
    Thread {
        /// What it is called.
        name: String,
        /// The system's answer.
        source: io::Error,
        /// Which limit to raise, if one is reached.
        advice: String,
    },
    /// No source of random bytes.
    #[error("the system gave no random bytes for the job key: {0}")]
    Random(#[from] getrandom::Error),
    /// The text form of a job key is damaged.
    #[error(
        "the job key in `_HOROVOD_SECRET_KEY` is not 64 hexadecimal digits; it is set by horovodrun"
    )]
    MalformedKey,
    /// The file with the job key cannot be read.
    #[error(
        "cannot read the job key from HOROVOD_SECRET_KEY_FILE=`{}`: {source}; the file is made by \
         horovodrun and must be readable by the user of this process",
        path.display()
    )]
    UnreadableKey {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file with the job key holds something else.
    #[error(
        "the file HOROVOD_SECRET_KEY_FILE=`{}` does not hold 64 hexadecimal digits; it is made by \
         horovodrun",
        path.display()
    )]
    MalformedKeyFile {
        /// The file.
        path: PathBuf,
    },
    /// The other end of a connection is some other program.
    #[error("the other end of the connection does not speak horovod's protocol")]
    NotHorovod,
    /// The other end of a connection is another release.
    #[error(
        "the other end speaks version {theirs} of the protocol and this process version {ours}; \
         install the same horovod release on all hosts"
    )]
    Version {
        /// This build's version.
        ours: u8,
        /// The other end's.
        theirs: u8,
    },
    /// The other end of a connection does not know the job key.
    #[error(
        "the other end of the connection does not know the key of this job; does it belong to another job?"
    )]
    WrongKey,
    /// The other end of a connection belongs to a user who may not ask.
    #[error("only the user of the job and root are answered")]
    AnotherUser,
    /// The handshake cannot be prepared.
    #[error("the handshake of a new connection cannot be prepared: {0}")]
    Noise(#[from] snow::Error),
    /// The cipher refuses to work, which it does for no input of ours.
    #[error("the cipher of a connection failed")]
    NoCipher,
    /// So many connections are about to prove the key that this one had to go.
    #[error("too many connections are about to prove the key at once, and this was the oldest")]
    Crowded,
    /// What arrived is not what the other end sent.
    #[error("{}", crate::session::TAMPERED)]
    Tampered,
    /// A message claims to be longer than anything that is ever sent.
    #[error("a message of {length} bytes exceeds the limit of {limit}")]
    TooLong {
        /// The length that was claimed or asked for.
        length: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// A message that cannot be understood.
    #[error("a message of the key-value store is malformed: {0}")]
    Malformed(&'static str),
    /// There is no launcher, and hence no store.
    #[error("this process was not started by horovodrun, so the job has no key-value store")]
    NoStore,
    /// No value was put in time.
    #[error("no value for `{key}` came within {seconds} s")]
    TimedOut {
        /// What was waited for.
        key: String,
        /// How long.
        seconds: u64,
    },
    /// Some ranks did not come to an exchange in time.
    #[error(
        "{} of {size} did not come to `{scope}` within {seconds} s",
        RankList(missing)
    )]
    MissingRanks {
        /// The exchange.
        scope: String,
        /// Who did not come.
        missing: Vec<Rank>,
        /// How many were expected in all.
        size: usize,
        /// How long they were waited for.
        seconds: u64,
    },
    /// A rank has given up its attempt to join the others; it may try again.
    #[error("rank {rank} {reason}")]
    GaveUp {
        /// Who has left.
        rank: Rank,
        /// Where it runs and why, as the rest of a sentence.
        reason: String,
    },
    /// The process of a rank has ended; waiting for it is pointless.
    #[error("rank {rank} {reason}; all ranks of a job have to take part in every init()")]
    Ended {
        /// Whose process it was.
        rank: Rank,
        /// Where it ran and how it ended, as the rest of a sentence.
        reason: String,
    },
    /// The client has closed the connection.
    #[error("the client has closed its connection")]
    HungUp,
    /// The store understood the request and refuses it.
    #[error("the key-value store refused the request: {0}")]
    Refused(String),
    /// The store was stopped, because the job is over.
    #[error("the key-value store has stopped; the job is over")]
    Stopped,
}

impl From<FrameTooLong> for Error {
    fn from(FrameTooLong { length, limit }: FrameTooLong) -> Self {
        Self::TooLong {
            length: length as u64,
            limit: limit as u64,
        }
    }
}

impl Error {
    /// Wraps a system error with what was being done; for use with `map_err`.
    pub fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// Ranks as they are read best: `rank 3`, `ranks 1, 4`, and the first few of many.
struct RankList<'a>(&'a [Rank]);

impl fmt::Display for RankList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        let shown: Vec<String> = self.0.iter().take(SHOWN).map(Rank::to_string).collect();
        let plural = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "rank{plural} {}", shown.join(", "))?;
        if self.0.len() > SHOWN {
            write!(f, " and {} more", self.0.len() - SHOWN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(count: u32) -> String {
        let missing = (1..=count).map(Rank::new).collect();
        Error::MissingRanks {
            scope: "mesh/0".into(),
            missing,
            size: 99,
            seconds: 5,
        }
        .to_string()
    }

    #[test]
    fn missing_ranks_are_listed() {
        assert_eq!(
            missing(1),
            "rank 1 of 99 did not come to `mesh/0` within 5 s"
        );
        assert_eq!(
            missing(3),
            "ranks 1, 2, 3 of 99 did not come to `mesh/0` within 5 s"
        );
        assert!(missing(20).contains("15, 16 and 4 more of 99"));
    }
}
