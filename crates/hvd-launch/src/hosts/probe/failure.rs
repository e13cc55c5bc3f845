//! Why an address did not work, in a form that travels to the driver and in words that people
//! understand.

use std::io;

use serde::{Deserialize, Serialize};

/// Why an address of a host is of no use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProbeFailure {
    /// The host answers, the port does not.
    #[error("connection refused; is the port blocked by a firewall that says no?")]
    Refused,
    /// Nothing came back in time.
    #[error("no answer in time; is the port blocked by a firewall?")]
    TimedOut,
    /// This host knows no way there.
    #[error("no route to that address")]
    Unreachable,
    /// The firewall of this host does not let it out.
    #[error("this host may not send there; look at its own firewall")]
    Forbidden,
    /// Another host of this job has that address, too.
    #[error("another host of the job, number {identity}, answers at that address")]
    AnotherHost {
        /// Who answered.
        identity: u32,
    },
    /// Another program listens there.
    #[error("another program listens at that address and port")]
    NotHorovod,
    /// Another job listens there.
    #[error("another horovod job listens at that address and port")]
    WrongKey,
    /// A server accepted the connection and closed it.
    #[error("the connection was closed at once, as a port forwarder without a target does")]
    HungUp,
    /// Something else, in words.
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for ProbeFailure {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        if error.raw_os_error() == Some(libc::EAFNOSUPPORT) {
            return Self::Unreachable;
        }
        match error.kind() {
            Kind::ConnectionRefused => Self::Refused,
            Kind::TimedOut | Kind::WouldBlock => Self::TimedOut,
            Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::AddrNotAvailable => Self::Unreachable,
            Kind::PermissionDenied => Self::Forbidden,
            Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe
            | Kind::NotConnected
            | Kind::UnexpectedEof => Self::HungUp,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<hvd_rendezvous::Error> for ProbeFailure {
    fn from(error: hvd_rendezvous::Error) -> Self {
        use hvd_rendezvous::Error;
        match error {
            Error::Io { source, .. } => source.into(),
            Error::NotHorovod => Self::NotHorovod,
            Error::WrongKey => Self::WrongKey,
            other => Self::Other(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_system_are_told_apart() {
        let of = |code| ProbeFailure::from(io::Error::from_raw_os_error(code));
        assert_eq!(of(libc::ECONNREFUSED), ProbeFailure::Refused);
        assert_eq!(of(libc::ETIMEDOUT), ProbeFailure::TimedOut);
        for code in [
            libc::EHOSTUNREACH,
            libc::ENETUNREACH,
            libc::ENETDOWN,
            libc::EADDRNOTAVAIL,
            libc::EAFNOSUPPORT,
        ] {
            assert_eq!(of(code), ProbeFailure::Unreachable, "{code}");
        }
        assert_eq!(of(libc::EPERM), ProbeFailure::Forbidden);
        assert_eq!(of(libc::ECONNRESET), ProbeFailure::HungUp);
        assert!(matches!(of(libc::EMFILE), ProbeFailure::Other(_)));
    }

    #[test]
    fn failures_travel_and_read_well() {
        for (failure, words) in [
            (
                ProbeFailure::AnotherHost { identity: 3 },
                "another host of the job, number 3,",
            ),
            (ProbeFailure::Refused, "connection refused"),
            (ProbeFailure::Other("odd".into()), "odd"),
        ] {
            assert!(failure.to_string().starts_with(words), "{failure}");
            let text = serde_json::to_string(&failure).unwrap();
            assert_eq!(
                serde_json::from_str::<ProbeFailure>(&text).unwrap(),
                failure
            );
        }
    }
}
