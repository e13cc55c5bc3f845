//! Clusters on paper: what each host has, what the probes found, what is chosen and what is said.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// A host from `interface address` items; `!` before an interface means it is down.
fn host(name: &str, interfaces: &[&str]) -> HostAddresses {
    let candidate = |item: &&str| {
        let (interface, address) = item.split_once(' ').unwrap();
        Candidate {
            address: address.parse().unwrap(),
            interface: interface.trim_start_matches('!').to_owned(),
            up: !interface.starts_with('!'),
        }
    };
    HostAddresses {
        name: name.to_owned(),
        candidates: interfaces.iter().map(candidate).collect(),
        ..HostAddresses::default()
    }
}

/// Probes of all targets of all pairs, each answered as `answer` says.
fn probes(
    hosts: &[HostAddresses],
    rules: &AddressRules,
    answer: impl Fn(usize, usize, &str) -> Result<u64, &'static str>,
) -> Vec<Probe> {
    let mut probes = Vec::new();
    for from in 0..hosts.len() {
        for to in (0..hosts.len()).filter(|to| *to != from) {
            for target in targets(&hosts[to], rules) {
                let result = answer(from, to, &target.address.to_string());
                probes.push(Probe {
                    from,
                    to,
                    address: target.address,
                    result: result.map(Duration::from_micros).map_err(str::to_owned),
                });
            }
        }
    }
    probes
}

fn chosen(found: &Reachability, from: usize, to: usize) -> String {
    found
        .address(from, to)
        .map_or_else(|| "none".to_owned(), |address| address.to_string())
}

fn addresses(host: &HostAddresses, interfaces: &[&str]) -> Vec<String> {
    let rules = AddressRules {
        interfaces: interfaces.iter().map(|&name| name.to_owned()).collect(),
        ..AddressRules::default()
    };
    targets(host, &rules)
        .iter()
        .map(|target| target.address.to_string())
        .collect()
}

#[test]
fn addresses_are_tried_in_the_order_of_their_classes() {
    let mut a = host(
        "a",
        &[
            "lo 127.0.0.1",
            "lo ::1",
            "docker0 172.17.0.1",
            "ens3 192.168.1.5",
            "!eth1 10.2.0.1",
            "ens3 fe80::1",
            "ib0 10.9.0.1",
            "ens3 169.254.1.1",
            "br-5f2 172.18.0.1",
            "virbr0 192.168.122.1",
            "vethab 10.3.0.1",
            "br0 10.4.0.1",
        ],
    );
    a.advertised = vec!["203.0.113.7".parse().unwrap()];
    // Debian's own name is 127.0.1.1 in /etc/hosts; a mapped address is the plain one.
    a.resolved = ["127.0.1.1", "::ffff:10.9.0.1", "198.51.100.1"]
        .map(|a| a.parse().unwrap())
        .into();
    assert_eq!(
        addresses(&a, &[]),
        [
            "203.0.113.7",
            "10.9.0.1",
            "198.51.100.1",
            "192.168.1.5",
            "10.4.0.1",
            "172.17.0.1",
            "172.18.0.1",
            "192.168.122.1",
            "10.3.0.1"
        ]
    );
    assert_eq!(
        addresses(&a, &["ens3", "docker0"]),
        ["203.0.113.7", "192.168.1.5", "172.17.0.1"]
    );
    assert_eq!(addresses(&a, &["eth1"]), ["203.0.113.7"]);
}

#[test]
fn interface_names_may_differ_and_the_common_network_is_found() {
    let hosts = [
        host("a", &["eno1 10.0.0.1", "ib0 192.168.0.1"]),
        host("b", &["enp3s0 10.5.0.2", "ib1 192.168.0.2"]),
        host("c", &["eth0 10.0.0.3", "wan 10.5.0.3"]),
    ];
    let network = |address: &str| address.rsplit_once('.').unwrap().0.to_owned();
    let rules = AddressRules::default();
    let probes = probes(&hosts, &rules, |from, _, address| {
        let own = &hosts[from].candidates;
        let is_near = own
            .iter()
            .any(|c| network(&c.address.to_string()) == network(address));
        if is_near { Ok(200) } else { Err("timed out") }
    });
    let found = choose(&hosts, &probes, &rules);
    assert!(found.is_complete());
    let pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)].map(|(f, t)| chosen(&found, f, t));
    let expected = [
        "192.168.0.2",
        "192.168.0.1",
        "10.0.0.3",
        "10.0.0.1",
        "10.5.0.3",
        "10.5.0.2",
    ];
    assert_eq!(pairs, expected);
    assert_eq!(chosen(&found, 1, 1), "none");
    assert_eq!(
        found.matrix(),
        "\
from \\ to  a                    b                    c
a          -                    192.168.0.2 0.20 ms  10.0.0.3 0.20 ms
b          192.168.0.1 0.20 ms  -                    10.5.0.3 0.20 ms
c          10.0.0.1 0.20 ms     10.5.0.2 0.20 ms     -
"
    );
    assert_eq!(found.causes(), Vec::<String>::new());
}

#[test]
fn a_bridge_with_the_same_address_everywhere_is_not_taken() {
    let hosts = ["1", "2"].map(|n| {
        host(
            &format!("h{n}"),
            &["docker0 172.17.0.1", &format!("eth0 10.0.0.{n}")],
        )
    });
    let answer = |_, _, address: &str| {
        if address == "172.17.0.1" {
            Err("answered as another host")
        } else {
            Ok(100)
        }
    };
    let rules = AddressRules::default();
    let found = choose(&hosts, &probes(&hosts, &rules, answer), &rules);
    assert_eq!(
        [chosen(&found, 0, 1), chosen(&found, 1, 0)],
        ["10.0.0.2", "10.0.0.1"]
    );

    let rules = AddressRules {
        interfaces: vec!["docker0".to_owned()],
        ..rules
    };
    let found = choose(&hosts, &probes(&hosts, &rules, answer), &rules);
    let report = found.report();
    assert!(
        report.contains("172.17.0.1 answered as another host"),
        "{report}"
    );
    assert!(report.contains("no network in common"), "{report}");
    assert!(
        report.contains("`--network-interfaces docker0` were tried"),
        "{report}"
    );
}

#[test]
fn ipv6_alone_is_enough() {
    let hosts = ["1", "2"].map(|n| {
        host(
            &format!("h{n}"),
            &["lo ::1", "eth0 fe80::1", &format!("eth0 fd00::{n}")],
        )
    });
    let rules = AddressRules::default();
    let found = choose(&hosts, &probes(&hosts, &rules, |_, _, _| Ok(310)), &rules);
    assert_eq!(
        [chosen(&found, 0, 1), chosen(&found, 1, 0)],
        ["fd00::2", "fd00::1"]
    );
}

#[test]
fn each_direction_has_its_own_address() {
    let hosts = [
        host("a", &["eth0 10.0.0.1", "eth1 10.1.0.1"]),
        host("b", &["eth0 10.0.0.2", "eth1 10.1.0.2"]),
    ];
    let answer = |from, _, address: &str| match (from, address) {
        (0, "10.0.0.2") | (1, "10.1.0.1") => Ok(100),
        _ => Err("timed out"),
    };
    let rules = AddressRules::default();
    let found = choose(&hosts, &probes(&hosts, &rules, answer), &rules);
    assert_eq!(
        [chosen(&found, 0, 1), chosen(&found, 1, 0)],
        ["10.0.0.2", "10.1.0.1"]
    );
}

#[test]
fn a_container_behind_published_ports_is_told_from_a_firewall() {
    let mut hosts = [
        host("a", &["eth0 192.0.2.1"]),
        host("b", &["eth0 172.17.0.2"]),
    ];
    hosts[1].is_container = true;
    hosts[1].resolved = vec!["192.0.2.2".parse().unwrap()];
    let cause = |hosts: &[HostAddresses], rules: &AddressRules, refusal: &'static str| {
        let answer = |_, to, _: &str| if to == 1 { Err(refusal) } else { Ok(150) };
        let mut causes = choose(hosts, &probes(hosts, rules, answer), rules).causes();
        assert_eq!(causes.len(), 1, "{causes:?}");
        causes.remove(0)
    };
    let rules = AddressRules::default();
    let plain = cause(&hosts, &rules, "connection refused");
    assert_eq!(
        plain,
        "no host reaches `b`, though it reaches others itself: it is a container behind published \
         ports, reached at 192.0.2.2, an address of its machine: the ports at which ranks listen \
         have to be published too, start it with `docker run -p 20000-20199:20000-20199 ...` and \
         add `--port-range 20000-20199 --advertise b=192.0.2.2`, or with `docker run --network \
         host`"
    );
    assert!(!plain.contains("firewall"), "{plain}");
    assert!(cause(&hosts, &rules, "no answer in time").contains("firewall let them in as well?"));
    let ranged = AddressRules {
        port_range: Some((7000, 7009)),
        ..AddressRules::default()
    };
    let ranged = cause(&hosts, &ranged, "connection refused");
    assert!(ranged.contains("-p 7000-7009:7000-7009 ...` and add `--advertise b=192.0.2.2`"));
    // On the machine's own network, or no container at all.
    let mut on_host = hosts.clone();
    on_host[1].candidates[0].address = "192.0.2.2".parse().unwrap();
    let mut machine = hosts.clone();
    machine[1].is_container = false;
    for hosts in [on_host, machine] {
        assert!(cause(&hosts, &rules, "connection refused").contains("a firewall there"));
    }
}

#[test]
fn an_unreachable_host_is_named_with_what_to_open() {
    let hosts = ["1", "2", "3"].map(|n| host(&format!("h{n}"), &[&format!("eth0 10.0.0.{n}")]));
    let answer = |_, to, _: &str| if to == 1 { Err("timed out") } else { Ok(150) };
    let rules = AddressRules::default();
    let found = choose(&hosts, &probes(&hosts, &rules, answer), &rules);
    assert_eq!(
        found.report(),
        "\
from \\ to  h1                h2                  h3
h1         -                 10.0.0.2 timed out  10.0.0.3 0.15 ms
h2         10.0.0.1 0.15 ms  -                   10.0.0.3 0.15 ms
h3         10.0.0.1 0.15 ms  10.0.0.2 timed out  -
- no host reaches `h2`, though it reaches others itself: a firewall there; use
  `--port-range 20000-20199`; let these ports in, e.g. `ufw allow 20000:20199/tcp`, or for a
  container `docker run -p 20000-20199:20000-20199` with `--advertise h2=ADDRESS-OF-ITS-MACHINE`, or
  `docker run --network host`
"
    );
    let rules = AddressRules {
        port_range: Some((7000, 7009)),
        ..rules
    };
    let found = choose(&hosts, &probes(&hosts, &rules, answer), &rules);
    assert!(found.causes()[0].contains("the ports 7000-7009 of --port-range are blocked there"));
}

fn causes(
    rules: &AddressRules,
    answer: impl Fn(usize, usize, &str) -> Result<u64, &'static str>,
) -> String {
    let hosts = ["1", "2", "3"].map(|n| host(&format!("h{n}"), &[&format!("eth0 10.0.0.{n}")]));
    choose(&hosts, &probes(&hosts, rules, answer), rules)
        .causes()
        .join("\n")
}

#[test]
fn patterns_of_failure_have_their_causes() {
    let rules = AddressRules::default();
    let one_way = causes(&rules, |from, to, _| {
        if (from, to) == (0, 1) {
            Err("connection refused")
        } else {
            Ok(1)
        }
    });
    assert!(
        one_way.starts_with("`h2` reaches `h1`, but not the other way"),
        "{one_way}"
    );
    assert!(one_way.contains("a firewall on `h2`"), "{one_way}");

    let apart = causes(&rules, |from, to, _| {
        if from + to == 1 {
            Err("network is unreachable")
        } else {
            Ok(1)
        }
    });
    assert!(
        apart.starts_with("`h1` and `h2` have no network in common"),
        "{apart}"
    );
    assert_eq!(apart.lines().count(), 1, "{apart}");

    let filtered = causes(&rules, |from, to, _| {
        if from + to == 1 {
            Err("timed out")
        } else {
            Ok(1)
        }
    });
    assert!(
        filtered.contains("a firewall between these two"),
        "{filtered}"
    );

    let mute = causes(
        &rules,
        |from, _, _| if from == 2 { Err("timed out") } else { Ok(1) },
    );
    assert!(mute.starts_with("`h3` reaches no other host"), "{mute}");

    let all = causes(&rules, |_, _, _| Err("timed out"));
    assert!(
        all.starts_with("no host reaches another: a firewall on each of them"),
        "{all}"
    );
    let all = causes(&rules, |_, _, _| Err("No route to host"));
    assert!(
        all.starts_with("the hosts have no network in common"),
        "{all}"
    );

    let rules = AddressRules {
        interfaces: vec!["eth9".to_owned()],
        ..rules
    };
    let none = causes(&rules, |_, _, _| Ok(1));
    assert!(
        none.contains("`h1` has no usable address on `eth9` (its interfaces: eth0)"),
        "{none}"
    );
}

#[test]
fn only_interfaces_that_would_do_are_offered() {
    let hosts = ["1", "2"].map(|n| {
        host(
            &format!("h{n}"),
            &["lo 127.0.0.1", &format!("eth0 10.0.0.{n}"), "eth1 fe80::1"],
        )
    });
    let rules = AddressRules {
        interfaces: vec!["eth9".to_owned()],
        ..AddressRules::default()
    };
    let causes = choose(&hosts, &[], &rules).causes().join("\n");
    assert!(causes.contains("(its interfaces: eth0)"), "{causes}");
}

#[test]
fn a_probe_that_never_came_back_is_a_failure() {
    let hosts = ["1", "2"].map(|n| host(&format!("h{n}"), &[&format!("eth0 10.0.0.{n}")]));
    let found = choose(&hosts, &[], &AddressRules::default());
    assert_eq!(found.failures().count(), 2);
    assert!(found.matrix().contains("10.0.0.2 no answer in time"));
}

/// `count` hosts with long names and long addresses.
fn large(count: usize) -> Vec<HostAddresses> {
    (0..count)
        .map(|n| {
            let name =
                format!("node-{n}.a-rather-long-name-of-a-cluster.in-a-data-centre.example.org");
            let v6 = Ipv6Addr::from_bits(0x2001_0db8_1234_5678_9abc_def0_1234_0000 + n as u128);
            host(
                &name,
                &[
                    &format!("enp129s0f0np0 {v6}"),
                    &format!("docker0 172.17.0.{}", n + 1),
                ],
            )
        })
        .collect()
}

#[test]
fn eight_hosts_fit_a_terminal_and_more_become_a_list() {
    let rules = AddressRules::default();
    let answer = |from, to, address: &str| {
        let is_bad = from + to == 3 || address.starts_with("172");
        if is_bad {
            Err("connection timed out after 3 s and nothing else was heard")
        } else {
            Ok(9_999)
        }
    };
    for count in [2, 5, 8, 9, 40] {
        let hosts = large(count);
        let found = choose(&hosts, &probes(&hosts, &rules, answer), &rules);
        let report = found.report();
        for line in report.lines() {
            assert!(line.chars().count() <= 100, "{count}: {line}");
        }
        assert_eq!(report.contains("from \\ to"), count <= 8, "{report}");
    }
    let hosts = large(40);
    let works = choose(&hosts, &probes(&hosts, &rules, |_, _, _| Ok(100)), &rules).matrix();
    assert!(
        works.starts_with("all 1560 connections between 40 hosts work\n"),
        "{works}"
    );
}

#[test]
fn the_narrow_table_explains_its_letters() {
    let hosts = large(4);
    let rules = AddressRules::default();
    let answer = |from, _, address: &str| match (from, address.starts_with("172")) {
        (0, false) => Err("timed out"),
        (3, _) => Err("connection refused"),
        _ => Ok(1_500),
    };
    let found = choose(&hosts, &probes(&hosts, &rules, answer), &rules);
    let matrix = found.matrix();
    let expected = "\
from \\ to           to 1      to 2      to 3      to 4
1 node-0.a-rathe..  -         b 1.50ms  b 1.50ms  b 1.50ms
2 node-1.a-rathe..  a 1.50ms  -         a 1.50ms  a 1.50ms
3 node-2.a-rathe..  a 1.50ms  a 1.50ms  -         a 1.50ms
4 node-3.a-rathe..  no (1)    no (2)    no (3)    -
to 1, node-0.a-rather-long-name-of-a-cluster..: a = 2001:db8:1234:5678:9abc:def0:1234:0
    (enp129s0f0np0)
";
    assert!(matrix.starts_with(expected), "{matrix}");
    assert!(
        matrix.contains("(3) 2001:db8:1234:5678:9abc:def0:1234:2 connection refused,"),
        "{matrix}"
    );
}

proptest! {
    #[test]
    fn the_choice_is_an_answered_target_of_the_best_class_in_any_order_of_probes(
        answers in proptest::collection::vec(proptest::option::of(1_u64..5_000), 60),
        shift in 0_usize..60,
    ) {
        let hosts: Vec<_> = (0..4_u8).map(|n| HostAddresses {
            resolved: vec![Ipv4Addr::new(10, 1, 0, n + 1).into()],
            ..host(&format!("h{n}"), &[
                &format!("virbr0 10.3.0.{}", n + 1), &format!("eth0 10.2.0.{}", n + 1),
                &format!("eth1 10.1.0.{}", n + 1),
            ])
        }).collect();
        let rules = AddressRules::default();
        let mut all = probes(&hosts, &rules, |_, _, _| Err("timed out"));
        for (probe, answer) in all.iter_mut().zip(&answers) {
            if let Some(time) = answer { probe.result = Ok(Duration::from_micros(*time)); }
        }
        let found = choose(&hosts, &all, &rules);
        for route in found.routes() {
            let of_pair = |probe: &&Probe| (probe.from, probe.to) == (route.from, route.to);
            let answered = all.iter().filter(of_pair).filter(|probe| probe.result.is_ok());
            // Targets are probed best first, so the first that answered is the choice.
            let best = answered.map(|probe| probe.address).next();
            prop_assert_eq!(found.address(route.from, route.to), best);
        }
        let middle = shift % all.len();
        all.rotate_left(middle);
        prop_assert_eq!(&choose(&hosts, &all, &rules), &found);
        for line in found.report().lines() {
            prop_assert!(line.chars().count() <= 100, "{}", line);
        }
    }
}
