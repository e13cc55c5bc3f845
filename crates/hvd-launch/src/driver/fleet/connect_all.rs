//! Calls every agent at once and waits for all, so that a user sees all failures together.

use std::collections::{BTreeMap, HashMap, HashSet};

use hvd_types::Rank;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::{
    driver::{
        agent_port::AgentPort,
        start_agent::{AgentStart, StartedAgent},
    },
    error::HostTrouble,
    hosts::starter,
    messages,
    process::Reaper,
};

pub(super) fn ranks_of(start: &AgentStart) -> HashSet<Rank> {
    let ranks = start.assignment.ranks.iter();
    ranks.map(|rank| Rank::new(rank.rank)).collect()
}

/// Calls every host at once and waits for all, so that a user sees all failures together.
pub(super) async fn start_all(
    starts: Vec<AgentStart>,
    port: AgentPort,
    reaper: &Reaper,
    deadline: Instant,
    progress: &impl Fn(&str),
) -> (HashMap<usize, StartedAgent>, BTreeMap<usize, HostTrouble>) {
    let port = std::sync::Arc::new(port);
    let mut calls = JoinSet::new();
    let mut awaited: Vec<String> = Vec::new();
    for (index, one) in starts.into_iter().enumerate() {
        awaited.push(one.assignment.name.clone());
        let (reaper, port) = (reaper.clone(), std::sync::Arc::clone(&port));
        calls.spawn(async move {
            let name = one.assignment.name.clone();
            let answer = timeout_at(deadline, one.start(&reaper, &port)).await;
            (index, name, answer.unwrap_or_else(|_| Err(no_answer(&one))))
        });
    }
    let (mut arrived, mut absent) = (HashMap::new(), BTreeMap::new());
    if !awaited.is_empty() {
        progress(&messages::awaiting(&awaited));
    }
    while let Some(Ok((index, name, answer))) = calls.join_next().await {
        awaited.retain(|other| *other != name);
        if !awaited.is_empty() {
            progress(&messages::awaiting(&awaited));
        }
        match answer {
            Ok(started) => drop(arrived.insert(index, started)),
            Err(trouble) => drop(absent.insert(index, trouble)),
        }
    }
    (arrived, absent)
}

fn no_answer(start: &AgentStart) -> HostTrouble {
    let target = &start.target;
    if let Some(agents) = &start.options.agents {
        let port = agents.port;
        return HostTrouble {
            host: start.assignment.name.clone(),
            what: format!("no agent of host `{target}` has called at port {port} in time"),
            remedy: format!(
                "run `horovodrun agent <this host>:{port}` there, with the same \
                 HOROVOD_AGENT_TOKEN as here; if its own name is not `{target}`, add `--name {target}`"
            ),
        };
    }
    let stderr = start.stderr.text();
    let waits = starter::waits_for(&stderr).map_or_else(String::new, |reason| {
        format!("; Slurm has not started its step: {reason}")
    });
    HostTrouble {
        host: start.assignment.name.clone(),
        what: format!("host `{target}` did not answer in time{waits}"),
        remedy: format!(
            "try `{} true`; if it works but is slow, allow more with --start-timeout",
            start.by_hand()
        ),
    }
}
