//! What must hold however many ranks there are.

use super::*;

fn later_step(ranks: usize, wiring: Wiring) -> StepCost {
    let job = SimulatedJob {
        tensors: 12,
        ..SimulatedJob::new(ranks, wiring)
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

#[test]
fn an_operation_of_a_schedule_costs_each_rank_the_logarithm_of_the_ranks() {
    for ranks in [16, 100, 1024, 4096] {
        let (step, partners) = ready_barrier(&SimulatedJob::new(ranks, Wiring::Star));
        let rounds = u64::from(ranks.next_power_of_two().ilog2());
        assert_eq!(step.messages, ranks as u64 * rounds, "{ranks} ranks");
        assert_eq!(step.most_messages, 2 * rounds, "sent and received");
        assert!(partners as u64 <= 2 * rounds);
        let one_way = Costs::default().remote_latency + 2 * Costs::default().per_message;
        let limit =
            one_way * u32::try_from(rounds).unwrap() + SimulatedJob::new(1, Wiring::Star).skew;
        assert!(step.answered_after <= limit, "{:?}", step.answered_after);
    }
}
