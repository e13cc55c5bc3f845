//! The addresses of this host, as the kernel lists them. Decides nothing about which are of use:
//! that shows only when other hosts try them.

use std::{io, net::IpAddr};

use nix::{
    ifaddrs::{InterfaceAddress, getifaddrs},
    net::if_::InterfaceFlags,
};
use serde::{Deserialize, Serialize};

/// One address of one network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Interface {
    /// Name of the interface, such as `eth0`; one with several addresses appears several times.
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) loopback: bool,
    pub(crate) up: bool,
}

/// All addresses of this host but IPv6 link-local ones, which mean nothing without an interface.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    Ok(getifaddrs()?.filter_map(|entry| usable(&entry)).collect())
}

fn usable(entry: &InterfaceAddress) -> Option<Interface> {
    let storage = entry.address.as_ref()?;
    let address = if let Some(v4) = storage.as_sockaddr_in() {
        IpAddr::V4(v4.ip())
    } else {
        IpAddr::V6(storage.as_sockaddr_in6()?.ip())
    };
    if is_link_local_v6(address) {
        return None;
    }
    Some(Interface {
        name: entry.interface_name.clone(),
        address,
        loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK) || address.is_loopback(),
        up: entry.flags.contains(InterfaceFlags::IFF_UP),
    })
}

fn is_link_local_v6(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_address_is_there_and_marked() {
        let all = interfaces().unwrap();
        let loopback = all
            .iter()
            .find(|interface| interface.address == IpAddr::from([127, 0, 0, 1]))
            .unwrap();
        assert!(loopback.loopback && loopback.up, "{loopback:?}");
        assert!(!all.iter().any(|one| is_link_local_v6(one.address)));
    }

    #[test]
    fn link_local_is_fe80_only() {
        let is = |text: &str| is_link_local_v6(text.parse().unwrap());
        assert!(is("fe80::1") && is("febf::1"));
        assert!(!is("fec0::1") && !is("fd00::1") && !is("169.254.1.1"));
    }

    #[test]
    fn survives_the_way_to_the_driver() {
        let all = interfaces().unwrap();
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Interface>>(&text).unwrap(), all);
    }
}
