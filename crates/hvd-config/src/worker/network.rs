//! Where ranks of other hosts are reached, at which ports this rank may be, and who speaks for whom.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use crate::environment::malformed;
use crate::setting::name;
use crate::setting::values::{parse_addresses, parse_ports};
use crate::{Environment, Result};

pub(super) fn host_addresses(
    environment: &Environment,
) -> Result<Option<BTreeMap<String, IpAddr>>> {
    read(environment, name::HOST_ADDRESSES, parse_addresses)
}

pub(crate) fn port_range(environment: &Environment) -> Result<Option<RangeInclusive<u16>>> {
    read(environment, name::PORT_RANGE, parse_ports)
}

pub(super) fn tcp_connections(environment: &Environment) -> Result<Option<u8>> {
    read(environment, name::TCP_CONNECTIONS, |text| {
        let number = text.parse().ok();
        number.filter(|number| (1..=64).contains(number))
    })
}

pub(super) fn control_fan_out(environment: &Environment) -> Result<Option<NonZeroUsize>> {
    read(environment, name::CONTROL_FAN_OUT, |text| text.parse().ok())
}

pub(super) fn tcp_congestion(environment: &Environment) -> Option<String> {
    let text = environment.text(name::TCP_CONGESTION)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn read<T>(
    environment: &Environment,
    variable: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(text) = environment.text(variable) else {
        return Ok(None);
    };
    let value = parse(text.trim());
    value.map(Some).ok_or_else(|| malformed(variable, text))
}
