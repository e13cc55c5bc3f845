//! Sentences for what keeps the connection itself from being made.

use super::{Facts, SSH_PORT, SshFailure, between, by_hand, quote};
use crate::hosts::ssh::recognise::NO_USER;

/// What and remedy, if it is such a cause.
pub(super) fn explain(cause: SshFailure, facts: &Facts<'_>) -> Option<(String, String)> {
    let texts = match cause {
        SshFailure::ClientMissing => client_missing(facts),
        SshFailure::NoAccountHere => no_account_here(facts),
        SshFailure::Configuration => configuration(facts),
        SshFailure::NameUnknown => name_unknown(facts),
        SshFailure::Refused => refused(facts),
        SshFailure::TimedOut => timed_out(facts),
        SshFailure::Silent => silent(facts),
        SshFailure::Unreachable => unreachable(facts),
        SshFailure::ClosedEarly => closed_early(facts),
        SshFailure::NotSsh => not_ssh(facts),
        SshFailure::NoCommonAlgorithm => no_common_algorithm(facts),
        SshFailure::Lost => lost(facts),
        _ => return None,
    };
    Some(texts)
}

fn client_missing(facts: &Facts<'_>) -> (String, String) {
    (
        format!(
            "cannot reach host `{}`: this machine has no `ssh`",
            facts.host
        ),
        "install it, e.g. `apt-get install openssh-client`, or start an agent on each host by \
         hand: `horovodrun agent --help`"
            .to_owned(),
    )
}

/// As in a container that was started with the number of a user.
fn no_account_here(facts: &Facts<'_>) -> (String, String) {
    let number = facts.line_with(NO_USER).split_once(NO_USER);
    let number = number.map_or("UID", |(_, number)| number.trim());
    (
        format!(
            "ssh does not go to host `{}` for user {number}, who has no account on this machine",
            facts.host
        ),
        format!(
            "as root here: `useradd --uid {} --create-home horovod`; or run as a user that has an \
             account (a container: without `--user {number}`), or without ssh: \
             `horovodrun agent --help`",
            quote(number)
        ),
    )
}

fn configuration(facts: &Facts<'_>) -> (String, String) {
    let what = |words: String| format!("ssh cannot go to host `{}`: {words}", facts.host);
    let others = facts.line_with("Bad owner or permissions on");
    if let Some((_, file)) = others.split_once(" permissions on ") {
        return (
            what(format!("others may write its configuration `{file}`")),
            format!("`chmod 600 {}`, and the file must be yours", quote(file)),
        );
    }
    let line = facts.line_with("Bad configuration option");
    (
        what(format!("its configuration has an error, `{line}`")),
        "mend that line, or remove it".to_owned(),
    )
}

/// The name may be that of a host on the way, from the user's configuration.
fn name_unknown(facts: &Facts<'_>) -> (String, String) {
    let name = between(facts.stderr, "Could not resolve hostname ", ": ").unwrap_or(facts.name());
    let on_the_way = if name == facts.name() {
        String::new()
    } else {
        format!(", which ssh goes to for host `{}`,", facts.host)
    };
    let reason = if facts.stderr.contains("Temporary failure") {
        "the name server does not answer"
    } else {
        "no such name"
    };
    let name = quote(name);
    (
        format!("the name `{name}`{on_the_way} does not resolve: {reason}"),
        format!(
            "is it spelt right? `getent hosts {name}` must print an address; else give the \
             address itself, or add the name to /etc/hosts (a container: `docker run --add-host \
             {name}:ADDRESS ...`)"
        ),
    )
}

fn refused(facts: &Facts<'_>) -> (String, String) {
    let (host, port) = (facts.host, facts.port());
    let other_port = if facts.options.port.is_some() {
        "is the port right? `-p` names it".to_owned()
    } else {
        "where it listens at another port, name it: `-p 12345`".to_owned()
    };
    let start = if port == SSH_PORT {
        "`systemctl start ssh`, or `/usr/sbin/sshd` in a container".to_owned()
    } else {
        format!("`/usr/sbin/sshd -p {port}` in the container or on the machine")
    };
    (
        format!("nothing listens at port {port} of host `{host}` (connection refused)"),
        format!("start an ssh server there: {start}; {other_port}"),
    )
}

fn timed_out(facts: &Facts<'_>) -> (String, String) {
    let (port, name) = (facts.port(), quote(facts.name()));
    (
        format!(
            "host `{}` does not answer at port {port} (timed out): it is off, or a firewall drops \
             what is sent there",
            facts.host
        ),
        format!(
            "is it switched on, is this its address, and does its firewall let port {port} \
             through? `nc -vz {name} {port}` tells"
        ),
    )
}

fn silent(facts: &Facts<'_>) -> (String, String) {
    let port = facts.port();
    (
        format!(
            "port {port} of host `{}` takes connections but no ssh server answers (timed out)",
            facts.host
        ),
        format!(
            "is port {port} that of sshd, and is the host overloaded? `{}` shows what it says",
            by_hand(facts.options, facts.host).replacen("ssh", "ssh -v", 1)
        ),
    )
}

fn unreachable(facts: &Facts<'_>) -> (String, String) {
    let address = between(facts.stderr, "connect to host ", " port").unwrap_or(facts.name());
    let address = quote(address);
    // Sent by a neighbour whose ARP request got no answer, or by the router in front of it.
    if facts.stderr.contains("No route to host") {
        return (
            format!(
                "host `{}` does not answer: it is off, or has another address, or there is no way \
                 to it (no route to host)",
                facts.host
            ),
            format!(
                "is it switched on, and is `{address}` its address? `ip route get {address}` shows \
                 the way there, `ip neigh show {address}` whether it answers in the same network"
            ),
        );
    }
    (
        format!(
            "there is no way from this machine to host `{}`: {}",
            facts.host,
            facts.last_line()
        ),
        format!(
            "is the network up (a VPN, a container's network, a firewall of this machine)? \
             `ip route get {address}` tells; or give another address of the host"
        ),
    )
}

fn closed_early(facts: &Facts<'_>) -> (String, String) {
    let port = facts.port();
    (
        format!(
            "host `{}` closed the connection at port {port} before the login",
            facts.host
        ),
        format!(
            "an ssh server that is asked too often at once does that (try again; raise \
             `MaxStartups` in its sshd_config), and so does a service that is not ssh; \
             `{}` shows how far it gets",
            by_hand(facts.options, facts.host).replacen("ssh", "ssh -v", 1)
        ),
    )
}

fn not_ssh(facts: &Facts<'_>) -> (String, String) {
    let port = facts.port();
    (
        format!(
            "what listens at port {port} of host `{}` is not an ssh server",
            facts.host
        ),
        "name the port of sshd with `-p`; in a container `/usr/sbin/sshd -p 12345` starts one at \
         port 12345"
            .to_owned(),
    )
}

fn no_common_algorithm(facts: &Facts<'_>) -> (String, String) {
    let missing = between(facts.stderr, "no matching ", " found").unwrap_or("algorithm");
    let offer = facts.line_with("Their offer: ").split_once("Their offer: ");
    let offer = offer.map_or("", |(_, offer)| offer);
    (
        format!(
            "ssh here and sshd on host `{}` have no {missing} in common",
            facts.host
        ),
        format!(
            "update the older of the two; or allow one of the host's in ~/.ssh/config, it offers \
             `{offer}`"
        ),
    )
}

fn lost(facts: &Facts<'_>) -> (String, String) {
    (
        format!(
            "the connection to host `{}` broke: {}",
            facts.host,
            facts.last_line()
        ),
        format!("is the host still up? `{}` tells", facts.on_host("uptime")),
    )
}
