//! Announcements and changes of process sets, without a transport.

use std::time::Duration;

use hvd_wire::{CacheId, SetChange};

use super::*;
use crate::handle::Completion;
use crate::test_entries::{agree, entry};

const GLOBAL: ProcessSetId = ProcessSetId::GLOBAL;
const FIRST: ProcessSetId = ProcessSetId::new(1);

fn ranks(numbers: &[u32]) -> Vec<Rank> {
    numbers.iter().copied().map(Rank::new).collect()
}

/// Rank 1 of three.
fn table() -> ProcessSetTable {
    let topology = Topology::new(["a", "a", "b"]);
    ProcessSetTable::new(Rank::new(1), Arc::new(ProcessSets::new(3)), topology)
}

fn add(table: &mut ProcessSetTable, id: ProcessSetId, members: &[u32]) {
    let ranks = ranks(members);
    table.apply(SetChangeResult::Added { id, ranks }, |_, _| {
        panic!("nothing was pending");
    });
}

fn entries(entries: Vec<BoxedEntry>) -> Submissions {
    Submissions {
        entries,
        ..Submissions::default()
    }
}

fn names(message: &RequestList) -> Vec<&str> {
    let requests = message.requests.iter();
    requests.map(|request| &*request.name).collect()
}

fn outcome(completion: &Completion) -> Option<Result<OperationOutput>> {
    completion.wait(Duration::ZERO)
}

#[test]
fn submissions_are_announced_once_per_set() {
    let mut table = table();
    add(&mut table, FIRST, &[0, 1]);
    let (a, _) = entry(GLOBAL, "a", 1.0);
    let (b, _) = entry(FIRST, "b", 1.0);
    let (c, _) = entry(GLOBAL, "c", 1.0);
    let announcements = table.announce(entries(vec![a, b, c]));
    assert_eq!(announcements.len(), 2);
    assert_eq!(names(&announcements[&GLOBAL]), ["a", "c"]);
    assert_eq!(announcements[&FIRST].process_set, FIRST);
    assert_eq!(names(&announcements[&FIRST]), ["b"]);
    assert!(table.global_has_pending() && table.others_have_pending() && table.is_engaged());
}

#[test]
fn changes_and_shutdown_travel_with_the_global_set() {
    let mut table = table();
    table.global().unwrap().begin(7, &[]);
    let announcements = table.announce(Submissions {
        entries: Vec::new(),
        changes: vec![SetChange::Remove(FIRST)],
        shutdown: true,
    });
    let message = &announcements[&GLOBAL];
    assert_eq!((announcements.len(), message.seen), (1, 7));
    assert_eq!(message.changes, [SetChange::Remove(FIRST)]);
    assert!(message.shutdown);
    assert!(table.announce(Submissions::default()).is_empty());
}

#[test]
fn a_submission_to_a_removed_set_fails() {
    let mut table = table();
    let (entry, completion) = entry(FIRST, "a", 1.0);
    assert!(table.announce(entries(vec![entry])).is_empty());
    assert_eq!(outcome(&completion), Some(Err(Error::Removed(FIRST))));
    assert!(!table.is_engaged());
}

#[test]
fn what_is_pending_is_announced_before_what_was_deferred() {
    let mut table = table();
    agree(table.global().unwrap(), "a", 4);
    let (a, _) = entry(GLOBAL, "a", 1.0);
    table.announce(entries(vec![a]));
    let (b, _) = entry(GLOBAL, "b", 1.0);
    let deferred = Submissions {
        shutdown: true,
        ..entries(vec![b])
    };
    let announcements = table.announce_pending(deferred).unwrap();
    let message = &announcements[&GLOBAL];
    assert_eq!(message.cached, [CacheId(4)], "a, by its number");
    assert_eq!(names(message), ["b"]);
    assert!(message.shutdown);
}

#[test]
fn callers_learn_of_changes_in_the_order_in_which_they_asked() {
    let mut table = table();
    let waiting: Vec<Arc<Completion>> = (0..3).map(|_| Arc::default()).collect();
    for completion in &waiting {
        table.await_change(Completer::new(completion));
    }
    assert!(table.is_engaged());
    add(&mut table, FIRST, &[0, 1]);
    let number = |completion| outcome(completion).map(|result| result.map(|output| output.number));
    assert_eq!(number(&waiting[0]), Some(Ok(Some(1))));
    assert_eq!(number(&waiting[1]), None);
    table.apply(SetChangeResult::Refused("no".to_owned()), |_, _| {});
    let refused = Err(Error::ProcessSet("no".to_owned()));
    assert_eq!(number(&waiting[1]), Some(refused));
    table.apply(SetChangeResult::Removed(FIRST), |_, _| {});
    assert_eq!(number(&waiting[2]), Some(Ok(Some(1))));
    assert!(!table.is_engaged());
}

#[test]
fn a_rank_works_only_in_sets_it_is_a_member_of() {
    let mut table = table();
    add(&mut table, FIRST, &[0, 2]);
    let others = ProcessSetId::new(2);
    add(&mut table, others, &[1, 2]);
    let members = |table: &ProcessSetTable, id| table.registry.members(id).map(|all| all.to_vec());
    assert_eq!(members(&table, FIRST), Some(ranks(&[0, 2])), "known to all");
    assert!(table.get(others).is_some() && table.get(FIRST).is_none());
    assert_eq!(
        table.member_of(FIRST).map(drop).unwrap_err().to_string(),
        "got a response list for process set 1, of which this rank is no member"
    );
}

#[test]
fn operations_of_a_removed_set_fail_and_free_their_names() {
    let mut table = table();
    add(&mut table, FIRST, &[0, 1]);
    let (a, completion) = entry(FIRST, "a", 1.0);
    table.announce(entries(vec![a]));
    let mut released = Vec::new();
    table.apply(SetChangeResult::Removed(FIRST), |id, name| {
        assert!(
            !completion.is_done(),
            "the name is free before the caller knows"
        );
        released.push((id, name.to_string()));
    });
    assert_eq!(released, [(FIRST, "a".to_owned())]);
    assert_eq!(outcome(&completion), Some(Err(Error::Removed(FIRST))));
    assert!(table.registry.members(FIRST).is_none() && table.get(FIRST).is_none());
}

#[test]
fn everything_in_flight_is_handed_out_at_the_end() {
    let mut table = table();
    add(&mut table, FIRST, &[0, 1]);
    let (a, _) = entry(FIRST, "a", 1.0);
    let (b, _) = entry(GLOBAL, "b", 1.0);
    table.announce(entries(vec![a, b]));
    table.await_change(Completer::new(&Arc::default()));
    let (pending, changes) = table.into_pending();
    assert_eq!((pending.count(), changes.len()), (2, 1));
}
