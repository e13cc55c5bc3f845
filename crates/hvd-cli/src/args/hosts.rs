//! Options about hosts, of both commands that connect to them: `horovodrun` and `horovodrun
//! doctor`. Only the shape of each option is checked here.

use std::{net::IpAddr, path::PathBuf};

use clap::{Args, ValueEnum};
use hvd_launch::hosts::SLOTS_LIMIT;

/// Which hosts, and how they are reached.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) num_proc: Option<u32>,
    #[arg(short = 'H', long, value_name = "HOST:SLOTS,...")]
    pub(crate) hosts: Option<String>,
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    pub(crate) hostfile: Option<PathBuf>,
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole)]
    pub(crate) start_timeout: Option<u32>,
    #[arg(short = 'p', long, value_name = "PORT", allow_negative_numbers = true, value_parser = port)]
    pub(crate) ssh_port: Option<u16>,
    #[arg(short = 'i', long, value_name = "FILE")]
    pub(crate) ssh_identity_file: Option<PathBuf>,
    #[arg(long, group = "host_keys")]
    pub(crate) ssh_strict: bool,
    #[arg(long, group = "host_keys")]
    pub(crate) no_host_key_check: bool,
    #[arg(
        long,
        value_name = "NAME,...",
        alias = "network-interface",
        action = clap::ArgAction::Append,
        value_delimiter = ','
    )]
    pub(crate) network_interfaces: Vec<String>,
    #[arg(
        long,
        value_name = "HOST=ADDRESS,...",
        action = clap::ArgAction::Append,
        value_delimiter = ',',
        value_parser = advertised
    )]
    pub(crate) advertise: Vec<(String, IpAddr)>,
    #[arg(
        long,
        value_name = "PORT",
        allow_negative_numbers = true,
        value_parser = port,
        conflicts_with_all = ["ssh_port", "ssh_identity_file", "host_keys"]
    )]
    pub(crate) agents: Option<u16>,
    #[arg(long, value_name = "NAME")]
    pub(crate) launcher: Option<LauncherArg>,
    #[arg(long, value_name = "FIRST-LAST", value_parser = port_range)]
    pub(crate) port_range: Option<(u16, u16)>,
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// What starts agents on other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LauncherArg {
    Ssh,
    Srun,
    Blaunch,
    Qrsh,
    Mpirun,
    Agents,
}

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (1..=SLOTS_LIMIT).contains(&number) => Ok(number),
        _ => Err(format!(
            "give a whole number from 1 to {SLOTS_LIMIT}, e.g. `-np 4`"
        )),
    }
}

fn whole(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("give a whole number from 0 to {}", u32::MAX))
}

fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("give a port, a whole number from 1 to 65535, e.g. `12345`".to_owned()),
    }
}

/// `host=address`; the address as digits, because every host has to mean the same by it.
fn advertised(text: &str) -> Result<(String, IpAddr), String> {
    let wrong =
        || format!("`{text}` is not `host=address` with an IP address, e.g. `node2=192.0.2.7`");
    let (host, address) = text.trim().split_once('=').ok_or_else(wrong)?;
    let address = address.trim().trim_matches(['[', ']']);
    let address = address.parse().map_err(|_| wrong())?;
    Ok((host.trim().to_owned(), address))
}

fn port_range(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("`{text}` is not a range of ports from 1 to 65535, e.g. `20000-20100`");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err(wrong()),
    }
}
