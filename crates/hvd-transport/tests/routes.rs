//! Ranks that reach each other by routes: several made-up hosts on the loopback network.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::ops::RangeInclusive;
use std::time::Duration;

use hvd_rendezvous::{JobKey, MemoryStore};
use hvd_testkit::run_ranks;
use hvd_transport::testing::options;
use hvd_transport::{MeshOptions, RankAddresses, Result, TransportKind, join};
use hvd_types::Rank;

const TIMEOUT: Duration = Duration::from_secs(20);

fn routes(pairs: &[(&str, &str)]) -> RankAddresses {
    let parse = |(name, address): &(&str, &str)| (name.to_string(), address.parse().unwrap());
    RankAddresses::Routes(pairs.iter().map(parse).collect())
}

/// Rank `rank` of `size`, on the host of that name.
fn on_host(
    rank: Rank,
    size: usize,
    key: &JobKey,
    host: &str,
    network: RankAddresses,
) -> MeshOptions {
    let mut options = options(rank.index(), size, key, TransportKind::Tcp, TIMEOUT);
    host.clone_into(&mut options.placement.hostname);
    MeshOptions { network, ..options }
}

/// Joins and sends every other rank a word.
fn meet(options: &MeshOptions, store: &MemoryStore) -> Result<()> {
    let mut mesh = join(options, &mut store.clone())?;
    let (rank, size) = (mesh.transport.rank(), mesh.transport.size());
    for step in 1..size {
        let to = Rank::from_index((rank.index() + step) % size);
        let from = Rank::from_index((rank.index() + size - step) % size);
        let (word, mut received) = (rank.number().to_le_bytes(), [0; 4]);
        let receive = Some((from, &mut received[..]));
        mesh.transport.exchange(Some((to, &word)), receive)?;
        assert_eq!(received, from.number().to_le_bytes());
    }
    Ok(())
}

#[test]
fn hosts_reach_each_other_where_their_routes_say() {
    for (a, b, c) in [
        ("127.0.0.2", "127.0.0.3", "127.0.0.4"),
        ("::1", "127.0.0.3", "::1"),
    ] {
        let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
        run_ranks(4, move |rank| {
            let (host, network) = match rank.number() {
                0 => ("a", routes(&[("b", b), ("c", c)])),
                1 | 2 => ("b", routes(&[("a", a), ("c", c)])),
                _ => ("c", routes(&[("a", a), ("b", b)])),
            };
            meet(&on_host(rank, 4, &key, host, network), &store).unwrap();
        });
    }
}

#[test]
fn a_host_that_is_not_at_its_address_is_named_with_what_to_do() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let errors = run_ranks(2, move |rank| {
        let (host, network) = match rank.number() {
            0 => ("a", RankAddresses::Address(IpAddr::from([127, 0, 0, 2]))),
            _ => ("b", routes(&[("a", "127.0.0.3")])),
        };
        let options = on_host(rank, 2, &key, host, network);
        let timeout = Duration::from_millis(300);
        let options = MeshOptions { timeout, ..options };
        meet(&options, &store).unwrap_err().to_string()
    });
    for part in [
        "cannot reach rank 0 on host `a` at 127.0.0.3:",
        "Connection refused",
        "open its ports there",
        "`--port-range`",
        "`--network-interfaces`",
    ] {
        assert!(errors[1].contains(part), "{part}: {}", errors[1]);
    }
    let waited = "rank 1 on host `b` did not connect to rank 0 at 127.0.0.2:";
    assert!(errors[0].contains(waited), "{}", errors[0]);
    assert!(errors[0].contains("firewall"), "{}", errors[0]);
}

#[test]
fn a_host_without_a_route_is_named() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let errors = run_ranks(2, move |rank| {
        let host = ["a", "b"][rank.index()];
        let options = on_host(rank, 2, &key, host, routes(&[("c", "127.0.0.3")]));
        let timeout = Duration::from_millis(300);
        meet(&MeshOptions { timeout, ..options }, &store)
            .unwrap_err()
            .to_string()
    });
    let expected = "rank 0 runs on host `a`, for which HOROVOD_HOST_ADDRESSES gives no address";
    assert!(errors[1].contains(expected), "{}", errors[1]);
    assert!(
        errors[0].contains("of host `a` within 0 s"),
        "{}",
        errors[0]
    );
}

#[test]
fn ranks_with_and_without_routes_do_not_mix() {
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    let errors = run_ranks(2, move |rank| {
        let network = match rank.number() {
            0 => routes(&[("b", "127.0.0.2")]),
            _ => RankAddresses::Address(IpAddr::from([127, 0, 0, 2])),
        };
        let options = on_host(rank, 2, &key, ["a", "b"][rank.index()], network);
        let timeout = Duration::from_millis(300);
        meet(&MeshOptions { timeout, ..options }, &store)
            .unwrap_err()
            .to_string()
    });
    let expected = "rank 0 on host `a` was started with HOROVOD_HOST_ADDRESSES and rank 1 without";
    assert!(errors[1].contains(expected), "{}", errors[1]);
}

/// A listener, and the port it has taken on all addresses.
fn taken() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn with_ports(rank: Rank, size: usize, key: &JobKey, ports: RangeInclusive<u16>) -> MeshOptions {
    let options = on_host(rank, size, key, "a", routes(&[("b", "127.0.0.2")]));
    let (ports, timeout) = (Some(ports), Duration::from_secs(10));
    MeshOptions {
        ports,
        timeout,
        ..options
    }
}

#[test]
fn ranks_share_a_range_of_ports_and_skip_what_is_taken() {
    // The range starts with a port that is taken, so the first rank has to look on.
    let (_listener, first) = taken();
    let ports = first..=first.saturating_add(50);
    let (key, store) = (JobKey::generate().unwrap(), MemoryStore::new());
    run_ranks(3, move |rank| {
        meet(&with_ports(rank, 3, &key, ports.clone()), &store).unwrap();
    });
}

#[test]
fn a_range_without_a_free_port_is_named() {
    let (_listener, port) = taken();
    let key = JobKey::generate().unwrap();
    let options = with_ports(Rank::new(1), 2, &key, port..=port);
    let error = meet(&options, &MemoryStore::new()).unwrap_err().to_string();
    let expected = format!(
        "rank 1 on host `a` finds no free port in HOROVOD_PORT_RANGE={port}-{port}; each rank of \
         a host needs one: end what uses them, or give a larger range (`--port-range`)"
    );
    assert_eq!(error, expected);
}
