//! From the pattern of failures to its likely cause: one host that no other reaches has a firewall,
//! two hosts that fail both ways share no network. Each finding is a sentence with what to do.

use std::net::IpAddr;

use super::{Reachability, RouteOutcome, is_usable, matrix::wrap};

/// Ports to suggest where the user named none.
const SUGGESTED_PORTS: (u16, u16) = (20_000, 20_199);

/// Most pairs that get a sentence of their own.
const LISTED_PAIRS: usize = 5;

impl Reachability {
    /// The matrix with the likely causes below: what is said when a pair has no address.
    pub fn report(&self) -> String {
        let causes = self.causes();
        let causes = causes.iter().map(|cause| wrap(&format!("- {cause}"), 2));
        self.matrix() + &causes.collect::<String>()
    }

    /// Likely causes of the failures, each with its remedy; none if there are no failures.
    pub fn causes(&self) -> Vec<String> {
        if self.is_complete() {
            return Vec::new();
        }
        let mut causes = match self.no_host_reaches_another() {
            Some(cause) => vec![cause],
            None => self.causes_by_host(),
        };
        if !self.rules.interfaces.is_empty() {
            let names = self.rules.interfaces.join(",");
            causes.push(format!(
                "only addresses of `--network-interfaces {names}` were tried; leave it out to try \
                 all"
            ));
        }
        causes
    }

    /// First the hosts that no other reaches, then those that reach no other, then what is left.
    fn causes_by_host(&self) -> Vec<String> {
        let mut left: Vec<_> = self
            .failures()
            .map(|route| (route.from, route.to))
            .collect();
        let mut causes = Vec::new();
        for host in 0..self.hosts.len() {
            if let Some(cause) = self.not_reached_at_all(host) {
                causes.push(cause);
                left.retain(|(_, to)| *to != host);
            }
        }
        for host in 0..self.hosts.len() {
            let stuck = left.iter().filter(|(from, _)| *from == host).count();
            if stuck > 1 && (0..self.hosts.len()).all(|to| !self.reaches(host, to)) {
                causes.push(self.reaches_no_other(host));
                left.retain(|(from, _)| *from != host);
            }
        }
        causes.extend(self.pairs(&left));
        causes
    }

    /// What it means that there is no connection at all, if that is so and there was one to try.
    fn no_host_reaches_another(&self) -> Option<String> {
        let is_tried = self.targets.iter().all(|targets| !targets.is_empty());
        let is_published = (0..self.hosts.len()).any(|host| self.published_at(host).is_some());
        if !is_tried || is_published || self.failures().count() < self.routes.len() {
            return None;
        }
        let reasons = self.reasons(|_| true);
        if reasons.iter().all(|reason| is_unreachable(reason)) {
            return Some(
                "the hosts have no network in common: connect them to one, or say at which \
                 addresses they reach each other: `--advertise HOST=ADDRESS,HOST=ADDRESS`"
                    .to_owned(),
            );
        }
        Some(format!(
            "no host reaches another: {}",
            self.open_firewall("on each of them", "HOST")
        ))
    }

    /// What it means that no host reaches this one, if that is so.
    fn not_reached_at_all(&self, host: usize) -> Option<String> {
        let others = (0..self.hosts.len()).filter(|other| *other != host);
        if others.clone().any(|other| self.reaches(other, host)) {
            return None;
        }
        let name = self.short(host);
        if self.targets[host].is_empty() {
            return Some(self.nothing_to_try(host));
        }
        let reasons = self.reasons(|route| route.1 == host);
        if reasons.iter().all(|reason| reason.contains("another host")) {
            return Some(format!(
                "what answers at the addresses of `{name}` is another host: they are those of a \
                 bridge that each host has alike; say where it is reached: `--advertise \
                 {name}=ADDRESS`"
            ));
        }
        if reasons.iter().all(|reason| is_unreachable(reason)) && self.published_at(host).is_none()
        {
            return Some(format!(
                "`{name}` has no network in common with the others: connect it to one, or say at \
                 which address they reach it: `--advertise {name}=ADDRESS`"
            ));
        }
        let out = others.clone().any(|other| self.reaches(host, other));
        let while_out = if out {
            ", though it reaches others itself"
        } else {
            ""
        };
        Some(format!(
            "no host reaches `{name}`{while_out}: {}",
            self.open_ports(host, "there")
        ))
    }

    fn nothing_to_try(&self, host: usize) -> String {
        let name = self.short(host);
        let mut interfaces: Vec<&str> = Vec::new();
        let is_any = self.rules.interfaces.is_empty();
        for candidate in &self.hosts[host].candidates {
            // Names to choose from: not that of the loopback, which would be refused again.
            let is_choice = is_any || is_usable(candidate.address);
            if is_choice && !interfaces.contains(&candidate.interface.as_str()) {
                interfaces.push(&candidate.interface);
            }
        }
        let has = if interfaces.is_empty() {
            "none".to_owned()
        } else {
            interfaces.join(", ")
        };
        if is_any {
            format!(
                "`{name}` has no address that other hosts can use (its interfaces: {has}): \
                 connect it to a network, or say where it is reached: `--advertise {name}=ADDRESS`"
            )
        } else {
            format!(
                "`{name}` has no usable address on `{}` (its interfaces: {has}): correct \
                 --network-interfaces; names may differ from host to host",
                self.rules.interfaces.join(",")
            )
        }
    }

    /// What to open: the ports of a container that has too few of them published, or a firewall.
    fn open_ports(&self, host: usize, place: &str) -> String {
        match self.published_at(host) {
            Some(address) => self.publish_ports(host, address),
            None => self.open_firewall(place, &self.short(host)),
        }
    }

    /// The address at which a container is reached although it is not its own but its machine's:
    /// so it is with `docker run -p`.
    fn published_at(&self, host: usize) -> Option<IpAddr> {
        let addresses = &self.hosts[host];
        let mut own = addresses.candidates.iter();
        let known = || addresses.advertised.iter().chain(&addresses.resolved);
        let is_own =
            own.any(|own| known().any(|one| one.to_canonical() == own.address.to_canonical()));
        if !addresses.is_container || is_own {
            return None;
        }
        known().find(|address| is_usable(**address)).copied()
    }

    fn publish_ports(&self, host: usize, address: IpAddr) -> String {
        let name = self.short(host);
        let (first, last) = self.rules.port_range.unwrap_or(SUGGESTED_PORTS);
        let publish = format!("`docker run -p {first}-{last}:{first}-{last} ...`");
        let is_advertised = !self.hosts[host].advertised.is_empty();
        let options = match (self.rules.port_range.is_some(), is_advertised) {
            (true, true) => String::new(),
            (true, false) => format!(" and add `--advertise {name}={address}`"),
            (false, true) => format!(" and add `--port-range {first}-{last}`"),
            (false, false) => {
                format!(" and add `--port-range {first}-{last} --advertise {name}={address}`")
            }
        };
        let reasons = self.reasons(|route| route.1 == host);
        let firewall = if reasons.iter().any(|reason| is_silence(reason)) {
            "; does the machine's firewall let them in as well?"
        } else {
            ""
        };
        format!(
            "it is a container behind published ports, reached at {address}, an address of its \
             machine: the ports at which ranks listen have to be published too, start it with \
             {publish}{options}, or with `docker run --network host`{firewall}"
        )
    }

    /// A firewall, or something like it: what to open.
    fn open_firewall(&self, place: &str, name: &str) -> String {
        let (first, last) = self.rules.port_range.unwrap_or(SUGGESTED_PORTS);
        let blocked = if self.rules.port_range.is_some() {
            format!("the ports {first}-{last} of --port-range are blocked {place}")
        } else {
            format!("a firewall {place}; use `--port-range {first}-{last}`")
        };
        format!(
            "{blocked}; let these ports in, e.g. `ufw allow {first}:{last}/tcp`, or for a \
             container `docker run -p {first}-{last}:{first}-{last}` with `--advertise \
             {name}=ADDRESS-OF-ITS-MACHINE`, or `docker run --network host`"
        )
    }

    fn reaches_no_other(&self, host: usize) -> String {
        format!(
            "`{}` reaches no other host, though they are reached: a firewall there for outgoing \
             connections, or it is in another network",
            self.short(host)
        )
    }

    /// Failures between single hosts; both directions in one sentence.
    fn pairs(&self, left: &[(usize, usize)]) -> Vec<String> {
        let is_first = |(from, to): &&(usize, usize)| !(to < from && left.contains(&(*to, *from)));
        let firsts: Vec<_> = left.iter().filter(is_first).collect();
        let mut causes: Vec<String> = firsts
            .iter()
            .take(LISTED_PAIRS)
            .map(|(from, to)| self.pair(*from, *to))
            .collect();
        if firsts.len() > LISTED_PAIRS {
            causes.push(format!(
                "{} more pairs like these",
                firsts.len() - LISTED_PAIRS
            ));
        }
        causes
    }

    fn pair(&self, from: usize, to: usize) -> String {
        let (a, b) = (self.short(from), self.short(to));
        if self.reaches(to, from) {
            return format!(
                "`{b}` reaches `{a}`, but not the other way: {}",
                self.open_ports(to, &format!("on `{b}`"))
            );
        }
        let reasons = self.reasons(|pair| pair == (from, to) || pair == (to, from));
        if reasons.iter().all(|reason| is_unreachable(reason)) {
            return format!(
                "`{a}` and `{b}` have no network in common: connect both to one, or say where \
                 they are reached: `--advertise {a}=ADDRESS,{b}=ADDRESS`"
            );
        }
        format!(
            "`{a}` does not reach `{b}`, though others do: a firewall between these two, or no \
             network in common"
        )
    }

    /// All reasons of the failed pairs that are asked for.
    fn reasons(&self, is_asked: impl Fn((usize, usize)) -> bool) -> Vec<&str> {
        let asked = self
            .routes
            .iter()
            .filter(|route| is_asked((route.from, route.to)));
        let tried = asked.filter_map(|route| match &route.outcome {
            RouteOutcome::Reached { .. } => None,
            RouteOutcome::Failed(tried) => Some(tried),
        });
        tried.flatten().map(|(_, reason)| reason.as_str()).collect()
    }
}

fn is_silence(reason: &str) -> bool {
    reason.contains("no answer") || reason.contains("timed out")
}

fn is_unreachable(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    reason.contains("unreachable") || reason.contains("no route") || reason.contains("another host")
}
