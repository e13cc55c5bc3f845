//! What must hold however many ranks there are.

use super::*;

fn later_step(ranks: usize, wiring: Wiring) -> Step {
    let job = Job {
        tensors: 12,
        ..Job::new(ranks, wiring)
    };
    let report = simulate(&job, 3, || {}).unwrap();
    report.steps[2]
}

#[test]
fn the_cost_for_a_rank_does_not_grow_faster_than_the_logarithm_of_the_ranks() {
    let most = |ranks, wiring| later_step(ranks, wiring).most_messages;
    let small = most(8, Wiring::Tree);
    // The logarithm of 8 is 3; the factor is what a host's leader has more to do than a rank of one
    // host only.
    let limit = |ranks: usize| 3 * small * u64::from(ranks.ilog2()) / 3;
    for ranks in [16, 64, 256, 1024] {
        let large = most(ranks, Wiring::Tree);
        let limit = limit(ranks);
        assert!(large <= limit, "{ranks} ranks: {large} of {limit} messages");
    }
    let star = most(1024, Wiring::Star);
    assert!(star > 4 * limit(1024), "the measure can tell: {star}");
}

#[test]
fn a_tree_takes_fewer_messages_at_the_root_and_the_same_answers() {
    let star = later_step(128, Wiring::Star);
    let tree = later_step(128, Wiring::Tree);
    assert!(
        tree.root_messages * 4 < star.root_messages,
        "{tree:?} {star:?}"
    );
    assert!(tree.root_bytes < star.root_bytes);
}
