//! Findings under a made-up time, and their texts word for word.

use super::*;

const WARNING: Duration = Duration::from_secs(60);

fn at(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

fn inspector(shutdown: u64, hosts: &[&str]) -> StallInspector {
    let shutdown = Duration::from_secs(shutdown);
    let options = StallOptions {
        warning: WARNING,
        shutdown: (!shutdown.is_zero()).then_some(shutdown),
    };
    let member = |(index, host): (usize, &&str)| (Rank::from_index(index), Arc::from(*host));
    StallInspector::new(options, hosts.iter().enumerate().map(member))
}

fn ask(inspector: &mut StallInspector, name: &str, ranks: &[u32], now: Instant) {
    for &rank in ranks {
        let (name, ranks) = (name.into(), Ranks::one(Rank::new(rank)));
        inspector.requested(&name, &ranks, now);
        inspector.last_requested(&ranks, &name, now);
    }
}

fn numbers(places: &[RankLocation]) -> Vec<u32> {
    places.iter().map(|place| place.rank.number()).collect()
}

#[test]
fn stall_1_a_tensor_is_reported_once_and_again_if_it_stalls_again() {
    let start = Instant::now();
    let mut inspector = inspector(0, &["a", "a", "b"]);
    ask(&mut inspector, "x", &[2, 0], start);
    assert_eq!(inspector.inspect(at(start, 59)), []);
    let stalled = inspector.inspect(at(start, 61));
    assert_eq!(stalled.len(), 1);
    assert_eq!(&*stalled[0].tensor, "x");
    assert_eq!(numbers(&stalled[0].missing), [1]);
    assert_eq!(numbers(&stalled[0].waiting), [0, 2]);
    assert_eq!(stalled[0].since, start);
    assert_eq!(stalled[0].waited, Duration::from_secs(61));
    assert_eq!(inspector.inspect(at(start, 500)), []);

    inspector.answered("x");
    ask(&mut inspector, "x", &[1], at(start, 600));
    assert_eq!(inspector.inspect(at(start, 659)), []);
    assert_eq!(inspector.inspect(at(start, 660)).len(), 1);
}

#[test]
fn stall_2_joined_ranks_are_not_missed_until_the_join_is_over() {
    let start = Instant::now();
    let mut inspector = inspector(0, &["a", "a", "b"]);
    inspector.joined(Rank::new(1));
    ask(&mut inspector, "x", &[0], start);
    assert_eq!(numbers(&inspector.inspect(at(start, 60))[0].missing), [2]);
    inspector.join_over();
    ask(&mut inspector, "y", &[0], at(start, 70));
    let stalled = inspector.inspect(at(start, 130));
    assert_eq!(numbers(&stalled[0].missing), [1, 2]);
}

#[test]
fn stall_3_the_next_check_is_the_next_warning_then_the_shutdown() {
    let start = Instant::now();
    let mut inspector = inspector(100, &["a", "b"]);
    assert_eq!(inspector.next_check(), None);
    ask(&mut inspector, "x", &[0], at(start, 10));
    ask(&mut inspector, "y", &[1], at(start, 20));
    assert_eq!(inspector.next_check(), Some(at(start, 70)));
    assert_eq!(inspector.inspect(at(start, 70)).len(), 1);
    assert_eq!(inspector.next_check(), Some(at(start, 80)));
    assert_eq!(inspector.inspect(at(start, 80)).len(), 1);
    assert_eq!(inspector.next_check(), Some(at(start, 110)));
    assert_eq!(inspector.fatal(at(start, 109)), []);
    let fatal = inspector.fatal(at(start, 110));
    assert_eq!(fatal.len(), 1);
    assert_eq!(&*fatal[0].tensor, "x");
    inspector.answered("x");
    inspector.answered("y");
    assert_eq!(inspector.next_check(), None);
}

#[test]
fn what_is_answered_in_time_leaves_no_trace() {
    let start = Instant::now();
    let mut inspector = inspector(0, &["a", "b"]);
    ask(&mut inspector, "x", &[0, 1], start);
    ask(&mut inspector, "y", &[0], at(start, 30));
    inspector.answered("x");
    assert_eq!(inspector.inspect(at(start, 60)), [], "x was answered");
    assert_eq!(inspector.next_check(), Some(at(start, 90)));
}

#[test]
fn one_missing_rank_is_told_with_its_host() {
    let start = Instant::now();
    let mut inspector = inspector(120, &["alpha", "alpha", "beta"]);
    ask(&mut inspector, "grad.6", &[0, 1, 2], start);
    inspector.answered("grad.6");
    ask(&mut inspector, "grad.7", &[0, 1], start);
    let stalled = inspector.inspect(at(start, 75));
    assert_eq!(
        text::warning(&stalled, WARNING, None),
        "some tensors were submitted by only some of the ranks for more than 60 s: missing on rank \
         2 on host `beta`: [grad.7]. The longest wait is for `grad.7`, submitted 75 s ago by ranks \
         0, 1 on host `alpha`. Rank 2 last submitted `grad.6`, 75 s ago. All ranks must submit the same tensors; a rank that misses some may \
         be slow, stuck in other work, or past a branch or a loop that the others did not take."
    );
    assert_eq!(
        text::failure(
            &inspector.fatal(at(start, 120)),
            Duration::from_secs(120),
            None
        ),
        "stalled for more than 120 s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS), the job is shut down: \
         missing on rank 2 on host `beta`: [grad.7]"
    );
}

#[test]
fn many_tensors_are_sorted_cut_short_and_grouped_by_who_misses_them() {
    let start = Instant::now();
    let hosts = ["a", "a", "a", "a", "a", "b", "b", "c"];
    let mut inspector = inspector(0, &hosts);
    for name in ["h", "c", "b", "g", "d", "f", "e"] {
        ask(&mut inspector, name, &[0], at(start, 5));
    }
    ask(&mut inspector, "a", &[1, 2, 3, 4, 5, 6, 7], start);
    let text = text::warning(&inspector.inspect(at(start, 65)), WARNING, None);
    let told = text.split(". ").next().unwrap();
    assert_eq!(
        told,
        "some tensors were submitted by only some of the ranks for more than 60 s: missing on rank \
         0 on host `a`: [a]; missing on ranks 1-4 on host `a`, ranks 5, 6 on host `b`, rank 7 on \
         host `c`: [b, c, d, e, f, g ...]"
    );
    assert!(
        text.contains(". Rank 0 last submitted `e`, 60 s ago. "),
        "{text}"
    );
    assert!(!text.contains('\n'), "one paragraph");
    assert!(
        text.contains("longest wait is for `a`, submitted 65 s ago"),
        "{text}"
    );
}
