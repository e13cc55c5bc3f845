//! Where a rank listens during joining, and where it finds the others.
//!
//! A job on one host, or on a network where every host has one address, listens at that address and
//! says so in its endpoint. Among several hosts the launcher has found out, for every pair of them,
//! an address that works; then a rank listens at all addresses of its host, its endpoint gives the
//! port, and the connecting rank takes the address from its own routes.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;

use hvd_types::Rank;

use super::endpoint::Endpoint;
use super::{MeshOptions, RankAddresses};
use crate::os::socket;
use crate::{Error, Result};

/// Opens the port at which the other ranks are to connect.
pub(super) fn listen(options: &MeshOptions) -> Result<TcpListener> {
    if let RankAddresses::Address(address) = options.network
        && address.is_unspecified()
    {
        let text = format!("{address} is no address that other ranks can reach");
        return Err(Error::Bootstrap(text));
    }
    let open = |port| match &options.network {
        RankAddresses::Address(address) => TcpListener::bind((*address, port)),
        RankAddresses::Routes(_) => socket::listen_everywhere(port),
    };
    let Some(ports) = &options.ports else {
        return open(0).map_err(Error::io("opening a port for the other ranks"));
    };
    for port in from(ports, options.placement.local_rank) {
        match open(port) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Ok(listener) => return Ok(listener),
            Err(source) => return Err(Error::PortRefused { port, source }),
        }
    }
    Err(Error::NoFreePort {
        rank: options.placement.rank,
        host: options.placement.hostname.clone(),
        ports: ports.clone(),
    })
}

/// All ports of the range, from another one for each rank of a host, so that they do not all try
/// the same.
fn from(ports: &RangeInclusive<u16>, local_rank: u32) -> impl Iterator<Item = u16> + use<> {
    let count = u32::from(ports.end() - ports.start()) + 1;
    let start = u16::try_from(local_rank % count).unwrap_or(0);
    let begin = ports.start() + start;
    (begin..=*ports.end()).chain(*ports.start()..begin)
}

/// Where this rank connects to `peer`, whose endpoint is `endpoint`.
pub(super) fn address_of(
    options: &MeshOptions,
    peer: Rank,
    endpoint: &Endpoint,
) -> Result<SocketAddr> {
    let host = &endpoint.hostname;
    match &options.network {
        RankAddresses::Address(_) if endpoint.address.ip().is_unspecified() => {
            Err(Error::Bootstrap(format!(
                "rank {peer} on host `{host}` was started with HOROVOD_HOST_ADDRESSES and rank {} \
                 without; start all ranks with the same `horovodrun`",
                options.placement.rank
            )))
        }
        RankAddresses::Address(_) => Ok(endpoint.address),
        RankAddresses::Routes(routes) => {
            let address = route(routes, &options.placement.hostname, host);
            let address = address.ok_or_else(|| {
                let names: Vec<&str> = routes.keys().map(String::as_str).collect();
                Error::Bootstrap(format!(
                    "rank {peer} runs on host `{host}`, for which HOROVOD_HOST_ADDRESSES gives no \
                     address; it names {}",
                    names.join(", ")
                ))
            })?;
            Ok(SocketAddr::new(address, endpoint.address.port()))
        }
    }
}

fn route(routes: &BTreeMap<String, IpAddr>, own: &str, host: &str) -> Option<IpAddr> {
    if own == host {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    routes.get(host).copied()
}

/// What a user can do about ranks of different hosts that do not reach each other.
pub(super) fn advice(options: &MeshOptions, host: &str) -> String {
    if host == options.placement.hostname {
        return String::new();
    }
    let ports = match &options.ports {
        Some(ports) => format!("open the ports {}-{} there", ports.start(), ports.end()),
        None => "open its ports there, of which `--port-range` says which".to_owned(),
    };
    format!(
        "; if a firewall is in the way, {ports}, or choose another network with \
         `--network-interfaces`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_of_a_host_starts_at_another_port_and_tries_all() {
        let tried = |local_rank| from(&(8..=11), local_rank).collect::<Vec<u16>>();
        assert_eq!(tried(0), [8, 9, 10, 11]);
        assert_eq!(tried(3), [11, 8, 9, 10]);
        assert_eq!(tried(6), [10, 11, 8, 9]);
        assert_eq!(from(&(1..=u16::MAX), u32::MAX).count(), 65535);
        assert_eq!(from(&(u16::MAX..=u16::MAX), 1).collect::<Vec<_>>(), [65535]);
    }
}
