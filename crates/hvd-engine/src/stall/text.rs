//! What users read about stalled tensors. Pure functions of stalled tensors; word for word what the
//! log and the final error say, each one paragraph.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hvd_types::Rank;

use super::describe::{StallAnswers, describe};
use super::{LastRequest, RankLocation, StalledTensor};

/// Names, or hosts, in one list before it is cut short with ` ...`.
pub(super) const MOST_LISTED: usize = 6;

/// The warning for newly stalled tensors; empty if there are none.
pub(crate) fn warning(
    stalled: &[StalledTensor],
    limit: Duration,
    answers: Option<&StallAnswers>,
) -> String {
    let Some(oldest) = oldest(stalled) else {
        return String::new();
    };
    let seconds = limit.as_secs();
    let mut text = format!(
        "some tensors were submitted by only some of the ranks for more than {seconds} s: {}",
        clauses(stalled)
    );
    let _ = write!(
        text,
        ". The longest wait is for `{}`, submitted {} s ago by {}. {}. All ranks must submit the same \
         tensors; a rank that misses some may be slow, stuck in other work, or past a branch or a \
         loop that the others did not take.",
        oldest.tensor,
        oldest.waited.as_secs(),
        places(&oldest.waiting),
        standings(oldest, answers)
    );
    text
}

/// The tensor that waits for longest, which the text describes most fully.
pub(super) fn oldest(stalled: &[StalledTensor]) -> Option<&StalledTensor> {
    stalled
        .iter()
        .max_by_key(|stalled_tensor| stalled_tensor.waited)
}

/// The state of the missing ranks: what they answered, or else what they did last.
fn standings(stalled_tensor: &StalledTensor, answers: Option<&StallAnswers>) -> String {
    let phrases: Vec<_> = match answers {
        Some(answers) => {
            let ranks = stalled_tensor
                .missing
                .iter()
                .zip(&stalled_tensor.last_requests);
            ranks
                .map(|(place, last)| describe(place, last, answers))
                .collect()
        }
        None => stalled_tensor
            .last_requests
            .iter()
            .map(last_requests)
            .collect(),
    };
    listed(&phrases, ". ")
}

fn last_requests(LastRequest { rank, requested }: &LastRequest) -> String {
    match requested {
        Some((name, ago)) => {
            let seconds = ago.as_secs();
            format!("Rank {rank} last submitted `{name}`, {seconds} s ago")
        }
        None => format!("Rank {rank} has submitted nothing yet"),
    }
}

/// Why the job ends, for the log and for every operation that is pending then.
pub(crate) fn failure(
    stalled: &[StalledTensor],
    limit: Duration,
    answers: Option<&StallAnswers>,
) -> String {
    let mut text = format!(
        "stalled for more than {} s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS), the job is shut down: {}",
        limit.as_secs(),
        clauses(stalled)
    );
    if let (Some(oldest), Some(_)) = (oldest(stalled), answers) {
        let _ = write!(text, ". {}", standings(oldest, answers));
    }
    text
}

/// Who misses what: one clause for each group of ranks that miss the same tensors.
fn clauses(stalled: &[StalledTensor]) -> String {
    let mut by_rank: BTreeMap<Rank, (RankLocation, Vec<&str>)> = BTreeMap::new();
    for stalled_tensor in stalled {
        for missing in &stalled_tensor.missing {
            let (_, names) = by_rank
                .entry(missing.rank)
                .or_insert_with(|| (missing.clone(), Vec::new()));
            names.push(&stalled_tensor.tensor);
        }
    }
    let mut groups: Vec<(Vec<RankLocation>, Vec<&str>)> = Vec::new();
    for (place, names) in by_rank.into_values() {
        match groups.iter_mut().find(|(_, others)| *others == names) {
            Some((places, _)) => places.push(place),
            None => groups.push((vec![place], names)),
        }
    }
    let clause = |(ranks, names): (Vec<RankLocation>, Vec<&str>)| {
        format!("missing on {}: [{}]", places(&ranks), listed(&names, ", "))
    };
    let clauses: Vec<_> = groups.into_iter().map(clause).collect();
    clauses.join("; ")
}

/// Ranks with their hosts, those of one host together: ranks 0-3, 6 on host `a`.
fn places(ranks: &[RankLocation]) -> String {
    let mut hosts: Vec<(&Arc<str>, Vec<Rank>)> = Vec::new();
    for RankLocation { rank, host } in ranks {
        match hosts.iter_mut().find(|(other, _)| *other == host) {
            Some((_, ranks)) => ranks.push(*rank),
            None => hosts.push((host, vec![*rank])),
        }
    }
    let phrase = |(host, ranks): (&Arc<str>, Vec<Rank>)| {
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{noun} {} on host `{host}`", ranges(&ranks))
    };
    let phrases: Vec<_> = hosts.into_iter().map(phrase).collect();
    listed(&phrases, ", ")
}

/// Sorted ranks, three or more neighbours as a range.
fn ranges(ranks: &[Rank]) -> String {
    let numbers: Vec<_> = ranks.iter().map(|rank| rank.number()).collect();
    let runs = numbers.chunk_by(|left, right| left + 1 == *right);
    let run = |run: &[u32]| match run {
        [first, _, .., last] => format!("{first}-{last}"),
        few => few
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    };
    runs.map(run).collect::<Vec<_>>().join(", ")
}

fn listed<S: AsRef<str>>(items: &[S], separator: &str) -> String {
    let shown: Vec<_> = items.iter().take(MOST_LISTED).map(AsRef::as_ref).collect();
    let rest = if items.len() > MOST_LISTED {
        " ..."
    } else {
        ""
    };
    shown.join(separator) + rest
}
