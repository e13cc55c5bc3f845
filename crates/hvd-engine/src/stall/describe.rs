//! The state of a rank that others wait for, in one sentence: what it finished last, what it has in
//! flight, and where its program is. A pure function of the rank's snapshot.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use hvd_types::Rank;
use hvd_wire::snapshot::{OperationState, OperationStatus, RankSnapshot};

use super::{LastRequest, RankLocation};

/// Operations under way that are named.
const MOST_PENDING: usize = 3;

/// The answers of the ranks that were asked.
#[derive(Debug, Default)]
pub(crate) struct StallAnswers {
    pub(crate) snapshots: BTreeMap<Rank, RankSnapshot>,
    /// How long they had.
    pub(crate) limit: Duration,
}

/// The sentence about one rank, without its full stop.
pub(super) fn describe(place: &RankLocation, last: &LastRequest, answers: &StallAnswers) -> String {
    let RankLocation { rank, host } = place;
    let who = format!("Rank {rank} on host `{host}`");
    let Some(snapshot) = answers.snapshots.get(rank) else {
        let limit = answers.limit.as_secs_f64();
        return format!(
            "{who} did not answer within {limit} s (is it suspended, swapping or cut off?); it {}",
            submitted(last)
        );
    };
    let mut text = format!("{who} {}", finished(snapshot));
    let pending: Vec<&OperationStatus> = snapshot.pending().collect();
    if let Some(newest) = pending.last() {
        let names = pending.iter().rev().take(MOST_PENDING);
        let names: Vec<_> = names
            .map(|operation| format!("`{}`", operation.name))
            .collect();
        let rest = if pending.len() > MOST_PENDING {
            " ..."
        } else {
            ""
        };
        let (names, ago) = (names.join(", "), seconds(newest.submitted()));
        let _ = write!(text, ", has {names}{rest} under way since {ago}");
    }
    let _ = write!(text, "; {}", standing(snapshot));
    text
}

fn submitted(LastRequest { requested, .. }: &LastRequest) -> String {
    match requested {
        Some((name, ago)) => format!("last submitted `{name}`, {} s ago", ago.as_secs()),
        None => "has submitted nothing yet".to_owned(),
    }
}

fn finished(snapshot: &RankSnapshot) -> String {
    match snapshot.last_ended() {
        Some(operation) if operation.state == OperationState::Failed => {
            format!(
                "failed at `{}` {} ago",
                operation.name,
                seconds(operation.since())
            )
        }
        Some(operation) => format!(
            "last finished `{}` {} ago",
            operation.name,
            seconds(operation.since())
        ),
        None => "has finished no operation yet".to_owned(),
    }
}

fn standing(snapshot: &RankSnapshot) -> String {
    match snapshot.position() {
        Some(position) if position.is_in_horovod() => {
            let ours = position.inside.unwrap_or(position.here);
            let function = &ours.function;
            format!(
                "its program waits inside horovod (`{function}`), called from {}",
                position.here
            )
        }
        Some(position) => format!("its program stands at {position}"),
        None if snapshot.unknown.is_empty() => "where its program stands is unknown".to_owned(),
        None => format!("where its program stands is unknown: {}", snapshot.unknown),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hvd_types::{OpKind, ProcessSetId};
    use hvd_wire::snapshot::{Origin, StackFrame, ThreadStack};

    use super::*;

    fn operation(name: &str, state: OperationState, milliseconds: u64) -> OperationStatus {
        OperationStatus {
            name: name.to_owned(),
            kind: OpKind::Allreduce,
            state,
            process_set: ProcessSetId::GLOBAL,
            ago: [Some(Duration::from_millis(milliseconds)); 4],
        }
    }

    fn frame(line: u32, function: &str, origin: Origin) -> StackFrame {
        StackFrame {
            file: "/home/u/train.py".to_owned(),
            line,
            function: function.to_owned(),
            origin,
        }
    }

    fn told(snapshot: Option<RankSnapshot>) -> String {
        let place = RankLocation {
            rank: Rank::new(1),
            host: Arc::from("b"),
        };
        let last = LastRequest {
            rank: Rank::new(1),
            requested: Some((Arc::from("grad.6"), Duration::from_secs(75))),
        };
        let snapshots = snapshot.map(|it| (Rank::new(1), it)).into_iter().collect();
        let limit = Duration::from_secs(2);
        describe(&place, &last, &StallAnswers { snapshots, limit })
    }

    fn stack(frames: Vec<StackFrame>) -> Vec<ThreadStack> {
        let name = "main".to_owned();
        vec![ThreadStack { name, frames }]
    }

    #[test]
    fn a_rank_in_its_own_code_is_told_with_the_line() {
        let snapshot = RankSnapshot {
            operations: vec![operation("allreduce.grad/7", OperationState::Done, 12_100)],
            threads: stack(vec![
                frame(42, "load_batch", Origin::Program),
                frame(80, "main", Origin::Program),
            ]),
            ..RankSnapshot::default()
        };
        assert_eq!(
            told(Some(snapshot)),
            "Rank 1 on host `b` last finished `allreduce.grad/7` 12.1 s ago; its program stands at \
             train.py:42 in load_batch (called from train.py:80 in main)"
        );
    }

    #[test]
    fn a_rank_inside_horovod_is_told_with_what_it_waits_for() {
        let snapshot = RankSnapshot {
            operations: vec![operation("allreduce.b", OperationState::Negotiating, 3_000)],
            threads: stack(vec![
                frame(9, "synchronize", Origin::Horovod),
                frame(50, "step", Origin::Program),
            ]),
            ..RankSnapshot::default()
        };
        assert_eq!(
            told(Some(snapshot)),
            "Rank 1 on host `b` has finished no operation yet, has `allreduce.b` under way since \
             3.0 s; its program waits inside horovod (`synchronize`), called from train.py:50 in step"
        );
    }

    #[test]
    fn silence_and_ignorance_are_admitted() {
        assert_eq!(
            told(None),
            "Rank 1 on host `b` did not answer within 2 s (is it suspended, swapping or cut off?); it \
             last submitted `grad.6`, 75 s ago"
        );
        let snapshot = RankSnapshot {
            unknown: "no free signal".to_owned(),
            ..RankSnapshot::default()
        };
        assert!(
            told(Some(snapshot)).ends_with("where its program stands is unknown: no free signal")
        );
    }
}
