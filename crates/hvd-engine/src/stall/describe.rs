//! How a rank stands that others wait for, in one sentence: what it finished last, what it has under
//! way, and where its program is. A pure function of what the rank told.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use hvd_types::Rank;
use hvd_wire::testimony::{Note, State, Testimony};

use super::{LastRequest, RankLocation};

/// Operations under way that are named.
const MOST_PENDING: usize = 3;

/// What the ranks told that were asked.
#[derive(Debug, Default)]
pub(crate) struct StallAnswers {
    pub(crate) testimonies: BTreeMap<Rank, Testimony>,
    /// How long they had.
    pub(crate) limit: Duration,
}

/// The sentence about one rank, without its full stop.
pub(super) fn describe(place: &RankLocation, last: &LastRequest, answers: &StallAnswers) -> String {
    let RankLocation { rank, host } = place;
    let who = format!("Rank {rank} on host `{host}`");
    let Some(testimony) = answers.testimonies.get(rank) else {
        let limit = answers.limit.as_secs_f64();
        return format!(
            "{who} did not answer within {limit} s (is it suspended, swapping or cut off?); it {}",
            submitted(last)
        );
    };
    let mut text = format!("{who} {}", finished(testimony));
    let pending: Vec<&Note> = testimony.pending().collect();
    if let Some(newest) = pending.last() {
        let names = pending.iter().rev().take(MOST_PENDING);
        let names: Vec<_> = names.map(|note| format!("`{}`", note.name)).collect();
        let rest = if pending.len() > MOST_PENDING {
            " ..."
        } else {
            ""
        };
        let (names, ago) = (names.join(", "), seconds(newest.submitted()));
        let _ = write!(text, ", has {names}{rest} under way since {ago}");
    }
    let _ = write!(text, "; {}", standing(testimony));
    text
}

fn submitted(LastRequest { requested, .. }: &LastRequest) -> String {
    match requested {
        Some((name, ago)) => format!("last submitted `{name}`, {} s ago", ago.as_secs()),
        None => "has submitted nothing yet".to_owned(),
    }
}

fn finished(testimony: &Testimony) -> String {
    match testimony.last_ended() {
        Some(note) if note.state == State::Failed => {
            format!("failed at `{}` {} ago", note.name, seconds(note.since()))
        }
        Some(note) => format!(
            "last finished `{}` {} ago",
            note.name,
            seconds(note.since())
        ),
        None => "has finished no operation yet".to_owned(),
    }
}

fn standing(testimony: &Testimony) -> String {
    match testimony.position() {
        Some(position) if position.is_in_horovod() => {
            let ours = position.inside.unwrap_or(position.here);
            let function = &ours.function;
            format!(
                "its program waits inside horovod (`{function}`), called from {}",
                position.here
            )
        }
        Some(position) => format!("its program stands at {position}"),
        None if testimony.unknown.is_empty() => "where its program stands is unknown".to_owned(),
        None => format!("where its program stands is unknown: {}", testimony.unknown),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hvd_types::{OpKind, ProcessSetId};
    use hvd_wire::testimony::{Frame, Origin, Thread};

    use super::*;

    fn note(name: &str, state: State, milliseconds: u64) -> Note {
        Note {
            name: name.to_owned(),
            kind: OpKind::Allreduce,
            state,
            process_set: ProcessSetId::GLOBAL,
            ago: [Some(Duration::from_millis(milliseconds)); 4],
        }
    }

    fn frame(line: u32, function: &str, origin: Origin) -> Frame {
        Frame {
            file: "/home/u/train.py".to_owned(),
            line,
            function: function.to_owned(),
            origin,
        }
    }

    fn told(testimony: Option<Testimony>) -> String {
        let place = RankLocation {
            rank: Rank::new(1),
            host: Arc::from("b"),
        };
        let last = LastRequest {
            rank: Rank::new(1),
            requested: Some((Arc::from("grad.6"), Duration::from_secs(75))),
        };
        let testimonies = testimony.map(|it| (Rank::new(1), it)).into_iter().collect();
        let limit = Duration::from_secs(2);
        describe(&place, &last, &StallAnswers { testimonies, limit })
    }

    fn stack(frames: Vec<Frame>) -> Vec<Thread> {
        let name = "main".to_owned();
        vec![Thread { name, frames }]
    }

    #[test]
    fn a_rank_in_its_own_code_is_told_with_the_line() {
        let testimony = Testimony {
            operations: vec![note("allreduce.grad/7", State::Done, 12_100)],
            threads: stack(vec![
                frame(42, "load_batch", Origin::Program),
                frame(80, "main", Origin::Program),
            ]),
            ..Testimony::default()
        };
        assert_eq!(
            told(Some(testimony)),
            "Rank 1 on host `b` last finished `allreduce.grad/7` 12.1 s ago; its program stands at \
             train.py:42 in load_batch (called from train.py:80 in main)"
        );
    }

    #[test]
    fn a_rank_inside_horovod_is_told_with_what_it_waits_for() {
        let testimony = Testimony {
            operations: vec![note("allreduce.b", State::Negotiating, 3_000)],
            threads: stack(vec![
                frame(9, "synchronize", Origin::Horovod),
                frame(50, "step", Origin::Program),
            ]),
            ..Testimony::default()
        };
        assert_eq!(
            told(Some(testimony)),
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
        let testimony = Testimony {
            unknown: "no free signal".to_owned(),
            ..Testimony::default()
        };
        assert!(
            told(Some(testimony)).ends_with("where its program stands is unknown: no free signal")
        );
    }
}
