//! How a job stands, for people. Pure text.

use std::{fmt::Write as _, time::Duration};

use hvd_launch::debug::{
    JobDescription, JobStatus, RankState,
    snapshot::{OperationState, OperationStatus, RankSnapshot},
};

/// A line of the table. What may be of any length stands last.
type Row = [String; 8];

const TITLES: [&str; 8] = [
    "RANK",
    "HOST",
    "PID",
    "STATE",
    "OPERATION",
    "SINCE",
    "TENSOR",
    "PYTHON",
];

/// The running jobs, one line each.
pub(super) fn jobs<'a>(jobs: impl Iterator<Item = &'a JobDescription>) -> String {
    let mut text = format!("{:>8}  {:>8}  {:>5}  COMMAND\n", "PID", "AGE", "RANKS");
    for job in jobs {
        let (pid, age, ranks) = (job.supervisor, seconds(job.age), job.ranks.len());
        let _ = writeln!(
            text,
            "{pid:>8}  {age:>8}  {ranks:>5}  {}",
            one_line(&job.command)
        );
    }
    text
}

/// One line per rank.
pub(super) fn brief(status: &JobStatus) -> String {
    let mut text = heading(&status.description);
    let rows = (0..status.description.ranks.len()).map(|rank| row(status, rank));
    let rows: Vec<Row> = std::iter::once(TITLES.map(str::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 7] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for row in &rows {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", row[7]);
    }
    text + &transports(status) + &remark(status)
}

/// What carries the bytes of the ranks: ranks of which the same is true in one line.
fn transports(status: &JobStatus) -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for report in &status.reports {
        let Some(snapshot) = report.snapshot.as_ref().filter(|it| !it.wires.is_empty()) else {
            continue;
        };
        let rank = report.rank.to_string();
        match groups
            .iter_mut()
            .find(|(wires, _)| *wires == snapshot.wires)
        {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((&snapshot.wires, vec![rank])),
        }
    }
    let mut text = String::new();
    for (index, (wires, ranks)) in groups.iter().enumerate() {
        let start = if index == 0 { "\n" } else { "" };
        let wires = one_line(wires);
        let _ = match groups.len() {
            1 => writeln!(text, "{start}transport: {wires}"),
            _ => writeln!(
                text,
                "{start}transport of ranks {}: {wires}",
                ranks.join(", ")
            ),
        };
    }
    text
}

/// The table, then each rank's last operations and stacks.
pub(super) fn in_full(status: &JobStatus) -> String {
    let mut text = brief(status);
    for report in &status.reports {
        let Some(snapshot) = &report.snapshot else {
            continue;
        };
        let (rank, host) = (report.rank, &report.host);
        let _ = writeln!(text, "\nrank {rank} on {host}, its last operations:");
        for operation in &snapshot.operations {
            let (state, kind) = (operation.state.name(), operation.kind.name());
            let ago = seconds(operation.since());
            let name = one_line(&operation.name);
            let _ = writeln!(text, "  {ago:>9} ago  {state:11}  {kind:13}  {name}");
        }
        stacks(&mut text, snapshot);
    }
    text
}

fn stacks(text: &mut String, snapshot: &RankSnapshot) {
    if snapshot.threads.is_empty() {
        let _ = writeln!(text, "  Python stack unknown: {}", snapshot.unknown);
    }
    for thread in &snapshot.threads {
        let _ = writeln!(text, "  {}, innermost call first:", one_line(&thread.name));
        for frame in &thread.frames {
            let (file, line) = (one_line(&frame.file), frame.line);
            let _ = writeln!(text, "    {file}:{line} in {}", one_line(&frame.function));
        }
    }
}

fn heading(description: &JobDescription) -> String {
    let JobDescription {
        supervisor,
        age,
        command,
        ranks,
        ..
    } = description;
    let ranks = ranks.len();
    let noun = if ranks == 1 { "rank" } else { "ranks" };
    let (age, command) = (seconds(*age), one_line(command));
    format!("job {supervisor}: {ranks} {noun}, running for {age}: {command}\n\n")
}

/// What the table leaves open.
fn remark(status: &JobStatus) -> String {
    let waiting = status.states.contains(&RankState::Absent);
    if !status.reports.is_empty() || waiting || status.states.is_empty() {
        return String::new();
    }
    if status.states[0] == RankState::Ended {
        return "\nrank 0, which asks the others, has ended\n".to_owned();
    }
    "\nrank 0, which collects the answers, did not answer within 5 s: is it suspended, or past \
     hvd.shutdown()?\n"
        .to_owned()
}

fn row(status: &JobStatus, rank: usize) -> Row {
    let member = &status.description.ranks[rank];
    let report = status.reports.iter().find(|it| it.rank.index() == rank);
    let snapshot = report.and_then(|report| report.snapshot.as_ref());
    let [state, operation, since, tensor, python] = match snapshot {
        Some(snapshot) => cells(snapshot),
        None => [state_unheard(status, rank), dash(), dash(), dash(), dash()],
    };
    let (host, pid) = (member.host.clone(), member.pid.to_string());
    [
        rank.to_string(),
        host,
        pid,
        state,
        operation,
        since,
        tensor,
        python,
    ]
}

fn dash() -> String {
    "-".to_owned()
}

fn state_unheard(status: &JobStatus, rank: usize) -> String {
    let text = match status.states.get(rank) {
        Some(RankState::Ended) => "ended",
        Some(RankState::Absent) => "has not called hvd.init()",
        Some(RankState::Present) if status.states.contains(&RankState::Absent) => {
            "in hvd.init(), waiting for others"
        }
        _ => "not answering",
    };
    text.to_owned()
}

/// What a rank is doing, in one word.
pub(super) fn activity(snapshot: &RankSnapshot) -> &'static str {
    let is_running = |operation: &OperationStatus| operation.state == OperationState::Executing;
    if snapshot.pending().any(is_running) {
        "running"
    } else if snapshot.pending().next().is_some() {
        "waiting"
    } else {
        "idle"
    }
}

/// The operation that says most: the one under way for longest, else the last one.
pub(super) fn current(snapshot: &RankSnapshot) -> Option<&OperationStatus> {
    let mut pending = snapshot.pending();
    let running = snapshot
        .pending()
        .find(|operation| operation.state == OperationState::Executing);
    running
        .or_else(|| pending.next())
        .or_else(|| snapshot.last_ended())
}

fn cells(snapshot: &RankSnapshot) -> [String; 5] {
    let state = activity(snapshot).to_owned();
    let python = match snapshot.position() {
        Some(position) => one_line(&position.to_string()),
        None => format!("unknown: {}", snapshot.unknown),
    };
    let Some(operation) = current(snapshot) else {
        return [state, "none yet".to_owned(), dash(), dash(), python];
    };
    let kind = match operation.state {
        OperationState::Done => format!("last {}", operation.kind),
        OperationState::Failed => format!("failed {}", operation.kind),
        _ => operation.kind.to_string(),
    };
    let since = if operation.state.is_over() {
        format!("{} ago", seconds(operation.since()))
    } else {
        seconds(operation.submitted())
    };
    [state, kind, since, one_line(&operation.name), python]
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Control characters spelled out, so that nothing breaks the table.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
pub(super) mod tests;
