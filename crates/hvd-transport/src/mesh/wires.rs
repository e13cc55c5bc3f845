//! What carries the bytes of one rank, and why, in words for `horovodrun debug`. Pure: decides
//! nothing, it only describes what `memory.rs` has decided.

use hvd_types::Rank;

use super::endpoint::Endpoint;
use super::{Bootstrap, TransportKind};

impl Bootstrap {
    /// What carries this rank's bytes; `has_memory` and `trouble` are the outcome of step 3.
    pub(super) fn wires(&self, has_memory: bool, trouble: Option<&str>) -> String {
        let kind = self.options().kind;
        describe(self.endpoints(), self.rank(), kind, has_memory, trouble)
    }
}

fn describe(
    endpoints: &[Endpoint],
    rank: Rank,
    kind: TransportKind,
    has_memory: bool,
    trouble: Option<&str>,
) -> String {
    let own = &endpoints[rank.index()];
    let is_elsewhere = |other: &Endpoint| !other.shares_host_with(own);
    if has_memory && endpoints.iter().any(is_elsewhere) {
        return "shared memory on this host, tcp between hosts".to_owned();
    }
    if has_memory {
        return "shared memory".to_owned();
    }
    if let Some(trouble) = trouble {
        let trouble = trouble.strip_prefix("using TCP: ").unwrap_or(trouble);
        return format!("tcp because {trouble}");
    }
    let same_name = endpoints
        .iter()
        .enumerate()
        .find(|(index, other)| *index != rank.index() && other.hostname == own.hostname);
    match same_name {
        None => "tcp".to_owned(),
        Some(_) if kind == TransportKind::Tcp => "tcp because HOROVOD_TRANSPORT=tcp".to_owned(),
        Some((index, other)) => match difference(own, other) {
            Some(what) => format!("tcp because rank {index} on the same host has {what}"),
            None => "tcp".to_owned(),
        },
    }
}

/// How the identities of two ranks differ whom the launcher takes for neighbours: those of
/// containers that hide more than files.
fn difference(own: &Endpoint, other: &Endpoint) -> Option<&'static str> {
    let parts = |endpoint: &Endpoint| -> Vec<String> {
        let words = endpoint.host_identity.split(' ');
        words.map(str::to_owned).collect()
    };
    match (&parts(own)[..], &parts(other)[..]) {
        ([boot, ..], [other_boot, ..]) if boot != other_boot => Some("another kernel"),
        ([_, name, ..], [_, other_name, ..]) if name != other_name => Some("another host name"),
        ([_, _, network], [_, _, other_network]) if network != other_network => {
            Some("another network namespace")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(identities: &[(&str, &str)], kind: TransportKind, has_memory: bool) -> String {
        let endpoints: Vec<Endpoint> = identities
            .iter()
            .map(|(hostname, identity)| Endpoint::named(hostname, identity))
            .collect();
        describe(&endpoints, Rank::new(0), kind, has_memory, None)
    }

    #[test]
    fn what_is_used_is_said_with_the_reason() {
        let auto = TransportKind::Auto;
        let same = ("a", "boot a net:1");
        assert_eq!(said(&[same, same], auto, true), "shared memory");
        assert_eq!(
            said(&[same, same, ("b", "boot2 b net:2")], auto, true),
            "shared memory on this host, tcp between hosts"
        );
        assert_eq!(said(&[same, ("b", "boot2 b net:2")], auto, false), "tcp");
        for (other, what) in [
            ("boot a net:7", "another network namespace"),
            ("boot x net:7", "another host name"),
            ("boot2 a net:1", "another kernel"),
        ] {
            let said = said(&[same, ("a", other)], auto, false);
            assert_eq!(
                said,
                format!("tcp because rank 1 on the same host has {what}")
            );
        }
        let by_setting = said(&[same, same], TransportKind::Tcp, false);
        assert_eq!(by_setting, "tcp because HOROVOD_TRANSPORT=tcp");
    }

    #[test]
    fn a_failure_to_share_memory_is_the_reason() {
        let endpoints = [Endpoint::named("a", "b a n"), Endpoint::named("a", "b a n")];
        let trouble = "using TCP: rank 1 has no shared memory: out of files";
        let rank = Rank::new(0);
        let said = describe(&endpoints, rank, TransportKind::Auto, false, Some(trouble));
        assert_eq!(
            said,
            "tcp because rank 1 has no shared memory: out of files"
        );
    }
}
