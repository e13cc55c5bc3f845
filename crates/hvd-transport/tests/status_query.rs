//! Rank 0 asks the others how they stand, over their lifelines.

use std::time::{Duration, Instant};

use hvd_transport::testing::{Wire, mesh_of};
use hvd_transport::{MAX_ANSWER_BYTES, Mesh, SnapshotSource, StatusQuery};
use hvd_types::Rank;

const TIMEOUT: Duration = Duration::from_secs(20);

fn open(
    meshes: &[Mesh],
    source_of: impl Fn(usize) -> Option<SnapshotSource>,
) -> Vec<Option<StatusQuery>> {
    let open = |(rank, mesh): (usize, &Mesh)| {
        let source = source_of(rank)?;
        let lifeline = mesh.lifeline.as_ref();
        Some(StatusQuery::open(Rank::from_index(rank), lifeline, source))
    };
    meshes.iter().enumerate().map(open).collect()
}

fn ranks(numbers: &[u32]) -> Vec<Rank> {
    numbers.iter().copied().map(Rank::new).collect()
}

#[test]
fn every_rank_that_is_asked_answers_again_and_again() {
    let meshes = mesh_of(Wire::SharedMemory, 4);
    let queries = open(&meshes, |rank| {
        let answer = format!("I am {rank}").into_bytes();
        Some(SnapshotSource::new(move || answer.clone()))
    });
    let requester = queries[0].as_ref().unwrap();
    for asked in [vec![1, 3], vec![0, 1, 2, 3], vec![], vec![2]] {
        let answers = requester.ask(&ranks(&asked), TIMEOUT);
        let expected: Vec<_> = asked
            .iter()
            .map(|&rank| (Rank::new(rank), format!("I am {rank}").into_bytes()))
            .collect();
        assert_eq!(answers.into_iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn long_answers_arrive_whole_and_a_goodbye_behind_them_too() {
    let mut meshes = mesh_of(Wire::Tcp, 3);
    let queries = open(&meshes, |rank| {
        Some(SnapshotSource::new(move || {
            vec![rank.to_le_bytes()[0]; MAX_ANSWER_BYTES]
        }))
    });
    let requester = queries[0].as_ref().unwrap();
    for _ in 0..20 {
        let answers = requester.ask(&ranks(&[1, 2]), TIMEOUT);
        assert_eq!(answers[&Rank::new(1)], vec![1; MAX_ANSWER_BYTES]);
        assert_eq!(answers[&Rank::new(2)], vec![2; MAX_ANSWER_BYTES]);
    }
    for mesh in meshes.drain(1..) {
        mesh.lifeline.unwrap().leave();
    }
    assert_eq!(meshes[0].abort.cause(), None);
}

#[test]
fn a_rank_that_does_not_answer_is_left_out_at_the_deadline() {
    let meshes = mesh_of(Wire::Tcp, 3);
    let queries = open(&meshes, |rank| match rank {
        1 => None,
        2 => Some(SnapshotSource::new(|| panic!("a bug in a source"))),
        _ => Some(SnapshotSource::new(|| b"fine".to_vec())),
    });
    let begun = Instant::now();
    let answers = queries[0]
        .as_ref()
        .unwrap()
        .ask(&ranks(&[0, 1, 2]), Duration::from_secs(4));
    assert!(begun.elapsed() >= Duration::from_secs(4));
    assert_eq!(answers.get(&Rank::new(0)).unwrap(), b"fine");
    assert_eq!(answers.get(&Rank::new(1)), None);
    assert_eq!(answers.get(&Rank::new(2)), Some(&Vec::new()));
    assert!(meshes.iter().all(|mesh| mesh.abort.cause().is_none()));
}

#[test]
fn a_rank_that_is_alone_asks_itself() {
    let meshes = mesh_of(Wire::Tcp, 1);
    let queries = open(&meshes, |_| Some(SnapshotSource::new(|| b"here".to_vec())));
    let answers = queries[0].as_ref().unwrap().ask(&ranks(&[0]), TIMEOUT);
    assert_eq!(answers[&Rank::new(0)], b"here");
}
