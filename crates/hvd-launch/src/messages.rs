//! Every sentence of the launcher that people read or match on, in one place. Pure text; who says
//! it and when is decided in `driver/`, `agent/` and `supervisor/`.

use std::{fmt::Write as _, time::Duration};

use hvd_types::{Placement, Rank};

use crate::process::ProcessExit;

/// What every line of the launcher itself begins with.
pub(crate) const SPEAKER: &str = "horovodrun: ";

/// What became of a rank that another one blames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlamedState {
    /// It exited with code 0 before anything was sent to it.
    ExitedWell,
    /// It had not ended when the others were asked to end.
    Running,
}

/// A worker's end in words.
pub(crate) fn outcome(outcome: ProcessExit) -> String {
    match outcome {
        ProcessExit::Exited(code) => format!("exited with code {code}"),
        ProcessExit::Killed(signal) => {
            format!("was killed by signal {signal} ({})", signal_name(signal))
        }
    }
}

/// What ranks that wait for another one report of its end, after its number.
pub(crate) fn how_ended(placement: &Placement, outcome_of: ProcessExit) -> String {
    format!("on host `{}` {}", placement.hostname, outcome(outcome_of))
}

/// Said as soon as it is clear which rank failed first, while others still run.
pub(crate) fn ending_others(failed: &Placement, outcome_of: ProcessExit, others: usize) -> String {
    let ranks = if others == 1 {
        "the other rank"
    } else {
        "the other ranks"
    };
    let what = outcome(outcome_of);
    format!(
        "rank {} on {} {what}; ending {ranks}",
        failed.rank, failed.hostname
    )
}

/// The last word about a failed job: who, where, how, and the end of what it wrote to stderr.
/// `blamed` is a rank that the failed one blames and that did not fail by itself.
pub(crate) fn failure_report(
    failed: &Placement,
    outcome_of: ProcessExit,
    blamed: Option<(&Placement, BlamedState)>,
    tail: &[String],
) -> String {
    let Placement { rank, hostname, .. } = failed;
    let mut text = format!(
        "{SPEAKER}the job failed: rank {rank} on {hostname} {}\n",
        outcome(outcome_of)
    );
    if outcome_of == ProcessExit::Killed(libc::SIGKILL) {
        text.push_str(SPEAKER);
        text.push_str("SIGKILL often means that the machine ran out of memory\n");
    }
    if let Some((Placement { rank, hostname, .. }, state)) = blamed {
        let state = blamed_state(state);
        let _ = writeln!(
            text,
            "{SPEAKER}because of rank {rank} on {hostname}, {state}"
        );
    }
    if tail.is_empty() {
        let _ = writeln!(text, "{SPEAKER}rank {rank} wrote nothing to stderr");
        return text;
    }
    let _ = writeln!(text, "{SPEAKER}last lines of rank {rank}'s stderr:");
    for line in tail {
        let _ = writeln!(text, "  | {line}");
    }
    text
}

/// What a rank did that others blame, although it did not fail.
fn blamed_state(state: BlamedState) -> &'static str {
    match state {
        BlamedState::ExitedWell => {
            "which ended with exit code 0 while other ranks were still in a collective or in \
             init(); every rank has to take part in every collective, see hvd.join()"
        }
        BlamedState::Running => "which still ran: suspended, swapping or cut off?",
    }
}

/// The last word about a job that lost a host.
pub(crate) fn host_lost(placements: &[Placement], host: &str, why: &str) -> String {
    let ranks: Vec<String> = placements
        .iter()
        .filter(|placement| placement.hostname == host)
        .map(|placement| placement.rank.to_string())
        .collect();
    let ranks = match ranks.as_slice() {
        [one] => format!("rank {one}"),
        several => format!("ranks {}", several.join(", ")),
    };
    format!("{SPEAKER}the job failed: host {host} with {ranks} was lost: {why}\n")
}

/// Said when a host was lost, while ranks elsewhere still run.
pub(crate) fn ending_after_loss(host: &str, why: &str) -> String {
    format!("host {host} was lost: {why}; ending the other ranks")
}

/// Why a host is lost whose agent was ended by a signal.
pub(crate) fn agent_ended(signal: i32) -> String {
    format!(
        "its agent was ended by signal {signal} ({}), by a user or with its ssh session",
        signal_name(signal)
    )
}

/// Why a host is lost whose agent, started beforehand, has hung up without a word.
pub(crate) fn agent_gone() -> String {
    "its agent was killed, or lost its connection to the driver".to_owned()
}

/// Why a host is lost whose agent was left alone.
pub(crate) fn agent_unkept() -> String {
    "its agent ended because its parent process was killed".to_owned()
}

/// What is not right about a host.
pub(crate) fn found_on(host: &str, what: &str) -> String {
    format!("host `{host}`: {what}")
}

/// Something that is not right, but does not hinder the job.
pub(crate) fn finding(what: &str, remedy: &str) -> String {
    format!("{what}; {remedy}")
}

/// Which host uses which address, for the curious.
pub(crate) fn reachability(matrix: &str) -> String {
    format!("addresses, from row to column:\n{}", matrix.trim_end())
}

/// Said by an agent that was started beforehand.
pub(crate) fn calling(driver: &str) -> String {
    format!("{SPEAKER}agent: calling {driver} until a job there wants this host\n")
}

/// Said when agents are expected to call.
pub(crate) fn awaiting_calls(port: u16) -> String {
    format!("waiting for agents: `horovodrun agent <this host>:{port}` on each of the other hosts")
}

/// What the driver waits for while agents are on their way.
pub(crate) fn awaiting(hosts: &[String]) -> String {
    const SHOWN: usize = 3;
    let more = hosts.len().saturating_sub(SHOWN);
    let shown = hosts[..hosts.len().min(SHOWN)].join(", ");
    match more {
        0 => format!("waiting for {shown}"),
        _ => format!("waiting for {shown} and {more} more"),
    }
}

/// The command line that runs the job, and whose it is; for the curious.
pub(crate) fn running_line(title: &str, line: &str) -> String {
    format!("{SPEAKER}{title}: {line}\n")
}

/// The last word about a job that `mpirun` or `jsrun` ran, after its own.
pub(crate) fn launcher_failed(program: &str, outcome_of: ProcessExit) -> String {
    format!(
        "{SPEAKER}the job failed: {program} {}\n",
        outcome(outcome_of)
    )
}

/// Said when a signal asked the launcher to end the job.
pub(crate) fn interrupted(signal: i32, running: usize) -> String {
    let ranks = if running == 1 {
        "1 rank"
    } else {
        &format!("{running} ranks")
    };
    format!("{}: ending {ranks}", signal_name(signal))
}

/// Said when processes survive even SIGKILL for a while.
pub(crate) fn given_up(pids: &[i32]) -> String {
    format!("processes {pids:?} do not end even after SIGKILL; leaving them to the system")
}

/// Said by the supervisor when the driver was killed.
pub(crate) fn driver_killed(signal: i32) -> String {
    format!(
        "{SPEAKER}the launcher's own process was killed by signal {signal} ({}); \
         all processes of the job were ended\n",
        signal_name(signal)
    )
}

/// Said when an output, a file in backticks or a stream, cannot be written for the first time.
pub(crate) fn unwritable(output: &str, error: &std::io::Error) -> String {
    format!(
        "cannot write {output}: {error}; the job goes on, but lines are lost until this works again"
    )
}

/// Said when an output can be written again for the first time.
pub(crate) fn writable_again(output: &str, lost: u64) -> String {
    let were = if lost == 1 { "was" } else { "were" };
    format!("{output} can be written again; {} {were} lost", lines(lost))
}

/// Said at the end about an output of which lines are missing.
pub(crate) fn lines_lost(output: &str, lost: u64, error: &str) -> String {
    let were = if lost == 1 { "was" } else { "were" };
    format!("{} of {output} {were} lost: {error}", lines(lost))
}

/// Stands in a file of `--output-filename` in place of lines that could not be written.
pub(crate) fn gap(lost: u64) -> String {
    let are = if lost == 1 { "is" } else { "are" };
    format!("{SPEAKER}{} {are} missing here\n", lines(lost))
}

fn lines(number: u64) -> String {
    match number {
        1 => "1 line".to_owned(),
        _ => format!("{number} lines"),
    }
}

/// Where the hosts come from, and what starts their agents.
pub(crate) fn allocated(origin: &str, starter: &str) -> String {
    format!("hosts: {origin}; agents are started by {starter}")
}

/// One line of the plan.
pub(crate) fn planned(placement: &Placement) -> String {
    let Placement {
        rank,
        size,
        local_rank,
        local_size,
        cross_rank,
        cross_size,
        hostname,
    } = placement;
    format!(
        "plan: rank {rank} of {size} on {hostname}, local rank {local_rank} of {local_size}, \
         cross rank {cross_rank} of {cross_size}"
    )
}

/// Said when a worker runs.
pub(crate) fn started(rank: Rank, pid: i32) -> String {
    format!("rank {rank} runs as process {pid}")
}

/// Said when a worker has ended, with the job's age.
pub(crate) fn ended(rank: Rank, outcome_of: ProcessExit, age: Duration) -> String {
    format!(
        "rank {rank} {} after {:.3} s",
        outcome(outcome_of),
        age.as_secs_f64()
    )
}

/// Said when a phase of the start is over.
pub(crate) fn phase_done(phase: &str, took: Duration) -> String {
    format!("phase {phase}: {:.3} s", took.as_secs_f64())
}

/// The name of a signal as people know it.
pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGIO => "SIGIO",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_rank_host_end_and_last_output() {
        let placement = Placement::alone();
        let tail = ["Traceback:".to_owned(), "ValueError: x".to_owned()];
        assert_eq!(
            failure_report(&placement, ProcessExit::Exited(3), None, &tail),
            "horovodrun: the job failed: rank 0 on localhost exited with code 3\n\
             horovodrun: last lines of rank 0's stderr:\n  | Traceback:\n  | ValueError: x\n"
        );
        assert_eq!(
            failure_report(&placement, ProcessExit::Killed(libc::SIGSEGV), None, &[]),
            "horovodrun: the job failed: rank 0 on localhost was killed by signal 11 (SIGSEGV)\n\
             horovodrun: rank 0 wrote nothing to stderr\n"
        );
        assert!(
            failure_report(&placement, ProcessExit::Killed(9), None, &[]).contains("out of memory")
        );
    }

    #[test]
    fn the_report_says_what_a_blamed_rank_did() {
        let placement = Placement::alone();
        let report = |state| {
            failure_report(
                &placement,
                ProcessExit::Exited(1),
                Some((&placement, state)),
                &[],
            )
        };
        let well = report(BlamedState::ExitedWell);
        assert!(
            well.contains(
                "\nhorovodrun: because of rank 0 on localhost, which ended with exit code 0 while \
                 other ranks were still in a collective"
            ),
            "{well}"
        );
        assert!(report(BlamedState::Running).contains("which still ran: suspended"));
    }
}
