//! Sessions of several ranks on one thread, over the in-memory transport.

use std::thread;
use std::time::Duration;

use hvd_transport::Lane;
use hvd_transport::mem::{self, MemTransport};
use hvd_wire::Response;
use hvd_wire::frame;

use super::*;
use crate::negotiate::coordinator::CoordinatorOptions;
use crate::negotiate::hub::Hub;
use crate::negotiate::tree::{ControlTree, TreePosition};
use crate::schedule::ready_barrier::ReadyBarrier;
use crate::test_entries::request;

/// Longer than any test: a relay passes up what is complete, and nothing because of the time.
const HOLD: Duration = Duration::from_secs(3600);

/// A rank's session and its end of the mesh.
struct Station {
    session: NegotiationSession,
    transport: MemTransport,
    notices: Vec<(Rank, ReadyNotice)>,
}

impl Station {
    fn asks_for(&mut self, name: &str) {
        let message = RequestList {
            requests: vec![request(name)],
            ..RequestList::default()
        };
        self.session.announce(message).unwrap();
        self.session.flush(&mut self.transport).unwrap();
    }

    fn receive(&mut self) {
        let notices = &mut self.notices;
        self.session
            .receive(&mut self.transport, |from, notice| {
                notices.push((from, notice));
            })
            .unwrap();
    }

    fn pass_down(&mut self) -> PassDown {
        self.session.pass_down(&mut self.transport).unwrap()
    }

    /// The tensors of the next response list to be carried out.
    fn next(&mut self) -> Option<Vec<String>> {
        let response_list = self.session.next_response_list()?;
        let named = response_list
            .responses
            .iter()
            .map(|response| match response {
                Response::Refuse { name, .. } => name.to_string(),
                Response::Execute(operation) => format!("{:?}", operation.tensors.len()),
                Response::Joined { last } => last.to_string(),
            });
        Some(named.collect())
    }

    fn messages(&self) -> u64 {
        self.session.counters.read(0).negotiation_messages
    }
}

fn stations(
    topology: &Topology,
    mesh: Vec<MemTransport>,
    position: impl Fn(Rank) -> TreePosition,
) -> Vec<Station> {
    let station = |transport: MemTransport| {
        let rank = transport.rank();
        let hub = (rank == Rank::COORDINATOR).then(|| {
            Hub::new(CoordinatorOptions {
                topology: topology.clone(),
                ..CoordinatorOptions::default()
            })
        });
        let role = ControlRole::new(position(rank), hub, HOLD);
        let barrier = ReadyBarrier::new(rank, topology.size());
        let session =
            NegotiationSession::new(role, barrier.partners(), topology.clone(), Arc::default());
        Station {
            session,
            transport,
            notices: Vec::new(),
        }
    };
    mesh.into_iter().map(station).collect()
}

fn star(mesh: Vec<MemTransport>) -> Vec<Station> {
    let size = mesh.len();
    let topology = Topology::new((0..size).map(|rank| format!("h{rank}")));
    stations(&topology, mesh, |rank| TreePosition::in_star(rank, size))
}

#[test]
fn what_all_ranks_announce_comes_back_to_all() {
    let mut ranks = star(mem::mesh(3));
    for rank in &mut ranks[1..] {
        rank.asks_for("a");
        assert_eq!(rank.messages(), 1);
    }
    ranks[0].receive();
    ranks[0].session.decide();
    assert_eq!(
        ranks[0].pass_down(),
        PassDown::Nothing,
        "rank 0 has not asked"
    );
    ranks[0].asks_for("a");
    ranks[0].session.decide();
    assert_eq!(ranks[0].pass_down(), PassDown::Passed);
    assert_eq!(ranks[0].messages(), 2, "one to each child");
    for rank in &mut ranks[1..] {
        rank.receive();
        assert!(!rank.session.has_response_lists(), "not passed on yet");
        assert_eq!(rank.pass_down(), PassDown::Passed);
    }
    for rank in &mut ranks {
        assert_eq!(rank.pass_down(), PassDown::Nothing);
        assert!(rank.session.has_response_lists());
        assert_eq!(rank.next(), Some(vec!["1".to_owned()]));
        assert_eq!(rank.next(), None);
    }
}

#[test]
fn a_relay_merges_what_goes_up_and_passes_on_what_comes_down() {
    let topology = Topology::new(["a", "b", "b", "b"]);
    let tree = ControlTree::new(&topology, 8);
    let mut ranks = stations(&topology, mem::mesh(4), |rank| tree.place(rank));
    for rank in &mut ranks {
        rank.asks_for("a");
    }
    let [root, relay, leaves @ ..] = &mut ranks[..] else {
        unreachable!("four ranks");
    };
    relay.session.pass_up(&mut relay.transport).unwrap();
    assert_eq!(relay.messages(), 0, "the leaves' requests are missing");
    relay.receive();
    relay.session.pass_up(&mut relay.transport).unwrap();
    assert_eq!(relay.messages(), 1, "one for three ranks");
    root.receive();
    root.session.decide();
    assert_eq!(root.pass_down(), PassDown::Passed);
    relay.receive();
    assert_eq!(relay.pass_down(), PassDown::Passed);
    for leaf in leaves {
        leaf.receive();
        assert_eq!(leaf.pass_down(), PassDown::Passed, "`PASS-1`");
        assert!(leaf.next().is_some());
    }
    assert!(relay.next().is_some());
}

#[test]
fn pass_2_a_list_that_a_child_cannot_take_is_not_carried_out() {
    let mut ranks = star(mem::mesh_with(2, 24, Duration::from_secs(30)));
    let [root, child] = &mut ranks[..] else {
        unreachable!("two ranks");
    };
    root.asks_for("a");
    let message = RequestList {
        requests: vec![request("a")],
        ..RequestList::default()
    };
    child.session.announce(message).unwrap();
    // The request takes several passes through so small a queue.
    while root.session.decided.len() == 0 {
        child.session.flush(&mut child.transport).unwrap();
        root.receive();
        root.session.decide();
    }
    assert_eq!(root.pass_down(), PassDown::Blocked);
    assert_eq!(root.next(), None, "what was passed on before comes first");
    thread::scope(|scope| {
        scope.spawn(|| {
            while child.pass_down() == PassDown::Nothing {
                child.receive();
            }
        });
        root.session.insist(&mut root.transport).unwrap();
    });
    assert!(root.next().is_some() && child.next().is_some());
}

#[test]
fn notices_reach_those_they_are_addressed_to() {
    let mut ranks = star(mem::mesh(3));
    let notice = ReadyNotice {
        schedule: 1,
        operation: 2,
        tensors: vec![3],
    };
    let Station {
        session, transport, ..
    } = &mut ranks[1];
    session
        .send_notice(transport, &notice, &[Rank::new(2)])
        .unwrap();
    session.finish_notices(transport, &[Rank::new(2)]).unwrap();
    assert_eq!(session.counters.read(0).ready_notices, 1);
    for rank in &mut ranks {
        rank.receive();
        assert_eq!(rank.pass_down(), PassDown::Nothing);
    }
    assert_eq!(ranks[2].notices, [(Rank::new(1), notice)]);
    assert!(ranks[0].notices.is_empty() && ranks[1].notices.is_empty());
}

#[test]
fn a_rank_that_breaks_the_protocol_is_named_with_its_host() {
    let mut ranks = star(mem::mesh(2));
    let mut bytes = Vec::new();
    let nonsense = |out: &mut Vec<u8>| out.extend([MessageKind::Negotiation as u8, 255]);
    frame::append(&mut bytes, frame::LIMIT, nonsense).unwrap();
    let sender = &mut ranks[1].transport;
    let sent = sender.try_send(Rank::COORDINATOR, Lane::Control, &bytes);
    assert_eq!(sent.unwrap(), bytes.len());
    let root = &mut ranks[0];
    let error = root.session.receive(&mut root.transport, |_, _| {});
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("rank 1 on host `h1` "), "{text}");
}

#[test]
fn a_shutdown_drops_the_lists_behind_it() {
    let mut ranks = star(mem::mesh(1));
    let root = &mut ranks[0];
    assert_eq!(root.session.shutdown_answer_due(), None);
    let due = Instant::now();
    root.session.await_shutdown(due);
    assert_eq!(root.session.shutdown_answer_due(), Some(due));
    root.asks_for("a");
    root.session.decide();
    assert_eq!(root.pass_down(), PassDown::Passed);
    assert!(root.session.has_response_lists());
    root.session.drop_response_lists();
    assert_eq!(root.next(), None);
}
