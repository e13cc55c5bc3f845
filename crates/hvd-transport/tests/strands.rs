//! Lanes over several connections: whatever is sent in whatever pieces arrives once, whole and in
//! order (`WIRE-1`).

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use hvd_testkit::run_ranks_with;
use hvd_transport::testing::{Setup, Wire};
use hvd_transport::{Lane, Mesh, Transport};
use hvd_types::Rank;
use proptest::prelude::*;

/// A byte that tells direction and position.
fn byte(from: Rank, position: usize) -> u8 {
    let mixed = position.wrapping_mul(0x9E37_79B9) ^ (position >> 7) ^ (from.index() << 5);
    mixed.to_le_bytes()[1]
}

/// Sends a stream in the pieces of `ours` and checks the other's, which comes in those of `theirs`.
fn talk(transport: &mut dyn Transport, ours: &[usize], theirs: &[usize]) {
    let own = transport.rank();
    let peer = Rank::new(1 - own.number());
    let (mut sent, mut received) = (0, 0);
    for turn in 0..ours.len().max(theirs.len()) {
        let length = ours.get(turn).copied().unwrap_or(0);
        let out: Vec<u8> = (sent..sent + length).map(|at| byte(own, at)).collect();
        let mut back = vec![0; theirs.get(turn).copied().unwrap_or(0)];
        transport
            .exchange(Some((peer, &out)), Some((peer, &mut back)))
            .unwrap();
        let good = (received..)
            .zip(&back)
            .all(|(at, &it)| it == byte(peer, at));
        assert!(good, "turn {turn} from {peer}");
        (sent, received) = (sent + length, received + back.len());
    }
    let more = transport.try_recv(peer, Lane::Data, &mut [0]).unwrap();
    assert_eq!(more, 0, "nothing arrives twice");
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![0..3_usize, 1..300_usize, 1..400_000_usize];
    proptest::collection::vec(length, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn wire_1_bytes_over_several_connections_arrive_once_whole_and_in_order(
        connections in 1..6_u8,
        tight in proptest::option::of((6..12_u32).prop_map(|bits| 1 << bits)),
        left in lengths(),
        right in lengths(),
    ) {
        let setup = Setup::new(Wire::Tcp, 2).connections(connections);
        let setup = match tight {
            Some(stripe) => setup.tight(stripe),
            None => setup,
        };
        let sides = [left, right];
        run_ranks_with(setup.build(), move |rank, mut mesh: Mesh| {
            let (ours, theirs) = (rank.index(), 1 - rank.index());
            talk(&mut *mesh.transport, &sides[ours], &sides[theirs]);
            mesh
        });
    }
}

#[test]
fn ranks_have_to_agree_on_the_number_of_connections() {
    use hvd_rendezvous::{JobKey, MemoryStore};
    use hvd_transport::{TransportKind, join, testing};
    use std::time::Duration;

    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let errors = hvd_testkit::run_ranks(2, move |rank| {
        let (kind, progress_timeout) = (TransportKind::Tcp, Duration::from_secs(5));
        let mut options = testing::options(rank.index(), 2, &key, kind, progress_timeout);
        options.tcp.connections = Some(1 + 2 * u8::try_from(rank.index()).unwrap());
        join(&options, &mut store.clone()).unwrap_err().to_string()
    });
    let text = "rank 0 was told to use transport `Tcp with 1 connections`, rank 1 on `localhost` \
                `Tcp with 3 connections`";
    assert!(errors[0].ends_with(text), "{}", errors[0]);
}
