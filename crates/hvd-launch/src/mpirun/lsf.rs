//! What an LSF allocation with CSM (IBM's cluster manager) says about its hosts: the compute nodes,
//! and the cores, threads and GPUs of one of them, to which all others are equal. Asked only for
//! `jsrun`. The answers are YAML, of which a few keys are read.

use std::io;

use super::{
    detect::ask,
    environment::{self, Variables},
};
use crate::{
    error::{Error, Result},
    hosts::{Host, allocate, is_local_name, ssh, this_machine},
    process::Reaper,
    spec::JobSpec,
};

/// Where CSM installs its programs, which are not always on PATH.
const CSM: &str = "/opt/ibm/csm/bin";

/// The job of LSF that this process runs in.
pub(crate) const JOB: &str = "LSB_JOBID";

/// The allocation of CSM that belongs to it.
const ALLOCATION: &str = "CSM_ALLOCATION_ID";

/// What is known about an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LsfFacts {
    /// The compute nodes, sorted.
    pub(crate) nodes: Vec<String>,
    /// Cores of a node that jobs may use.
    pub(crate) cores: u32,
    /// Hardware threads of a core.
    pub(crate) threads: u32,
    /// GPUs of a node.
    pub(crate) gpus: u32,
}

impl LsfFacts {
    /// Asks CSM, and the first node.
    pub(crate) async fn ask(spec: &JobSpec, reaper: &Reaper) -> Result<Self> {
        let questions = Questions {
            spec,
            environment: environment::of_mpirun(spec),
            reaper,
        };
        questions.ask().await
    }

    /// The job on all nodes, a rank for each GPU, if its hosts were not given; `ranks` as typed.
    pub(crate) fn fill_in(&self, spec: &JobSpec, ranks: Option<u32>) -> Result<JobSpec> {
        let mut spec = spec.clone();
        if spec.hosts.is_empty() {
            let host = |name: &String| Host {
                name: name.clone(),
                slots: self.gpus,
            };
            spec.hosts = self.nodes.iter().map(host).collect();
            let slots = spec.hosts.iter().map(|host| host.slots).sum();
            spec.placements = allocate(&spec.hosts, ranks.unwrap_or(slots))?;
        }
        Ok(spec)
    }
}

struct Questions<'a> {
    spec: &'a JobSpec,
    environment: Variables,
    reaper: &'a Reaper,
}

impl Questions<'_> {
    async fn ask(&self) -> Result<LsfFacts> {
        let allocation = self.environment.get(std::ffi::OsStr::new(ALLOCATION));
        let Some(allocation) = allocation.and_then(|value| value.to_str()) else {
            return Err(Error::LsfFacts {
                problem: format!("{ALLOCATION} is not set"),
            });
        };
        let allocated = self.csm("csm_allocation_query", "-a", allocation).await?;
        let mut nodes = items(&allocated, "compute_nodes");
        nodes.sort_unstable();
        let Some(first) = nodes.first() else {
            return Err(unreadable("csm_allocation_query", "compute_nodes"));
        };
        let isolated = number(&allocated, "isolated_cores").unwrap_or(0);
        let node = self.csm("csm_node_attributes_query", "-n", first).await?;
        let attribute =
            |key| number(&node, key).ok_or_else(|| unreadable("csm_node_attributes_query", key));
        let sockets = attribute("discovered_sockets")?;
        let cores = attribute("discovered_cores")?.saturating_sub(sockets * isolated);
        let gpus = attribute("discovered_gpus")?;
        let threads = self.threads(first).await?;
        Ok(LsfFacts {
            nodes,
            cores,
            threads,
            gpus,
        })
    }

    /// What a program of CSM answers.
    async fn csm(&self, program: &str, option: &str, subject: &str) -> Result<String> {
        let arguments = [option, subject];
        let installed = format!("{CSM}/{program}");
        let mut answer = ask(&installed, &arguments, &self.environment, self.reaper).await;
        if matches!(&answer, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            answer = ask(program, &arguments, &self.environment, self.reaper).await;
        }
        answer.map_err(|error| Error::LsfFacts {
            problem: format!("`{program} {option} {subject}` fails: {error}"),
        })
    }

    /// Hardware threads of a core of `node`.
    async fn threads(&self, node: &str) -> Result<u32> {
        let mut words = vec!["lscpu".to_owned()];
        if !is_local_name(node, &this_machine()) {
            let remote = ssh::command_for(&self.spec.remote.ssh, node, "lscpu");
            let remote = remote
                .iter()
                .map(|word| word.to_string_lossy().into_owned());
            words = remote.collect();
        }
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let answer = ask(&words[0], &arguments, &self.environment, self.reaper).await;
        let answer = answer.map_err(|error| Error::LsfFacts {
            problem: format!("`lscpu` on host `{node}` fails: {error}"),
        })?;
        number(&answer, "Thread(s) per core")
            .ok_or_else(|| unreadable("lscpu", "Thread(s) per core"))
    }
}

fn unreadable(program: &str, key: &str) -> Error {
    Error::LsfFacts {
        problem: format!("`{program}` does not say `{key}`"),
    }
}

/// The value of the first line `key: value`, whatever its indentation.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| {
        line.trim()
            .strip_prefix(key)?
            .trim_start()
            .strip_prefix(':')
    };
    text.lines().find_map(of_line).map(str::trim)
}

fn number(text: &str, key: &str) -> Option<u32> {
    value(text, key)?.trim_matches(['"', '\'']).parse().ok()
}

/// The items below `key:`, each `- item`, or those in brackets behind it.
fn items(text: &str, key: &str) -> Vec<String> {
    let clean = |item: &str| item.trim().trim_matches(['"', '\'']).to_owned();
    match value(text, key) {
        None => Vec::new(),
        Some("") => {
            let mut lines = text.lines().map(str::trim);
            let _ = lines.find(|line| line.starts_with(key));
            lines
                .map_while(|line| line.strip_prefix('-').filter(|item| !item.starts_with('-')))
                .map(clean)
                .collect()
        }
        Some(inline) => inline
            .trim_matches(['[', ']'])
            .split(',')
            .map(clean)
            .filter(|item| !item.is_empty())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpirun::tests::job;

    const ALLOCATED: &str = "---\nallocation_id: 7\nisolated_cores: 1\nnum_nodes: 2\n\
                             compute_nodes:\n - h37n09\n - h37n08\n...\n";

    #[test]
    fn the_keys_of_csm_are_read() {
        assert_eq!(items(ALLOCATED, "compute_nodes"), ["h37n09", "h37n08"]);
        assert_eq!(
            items("compute_nodes: [a, 'b']\n", "compute_nodes"),
            ["a", "b"]
        );
        assert!(items("other: 1\n", "compute_nodes").is_empty());
        assert!(items("compute_nodes:\n---\n", "compute_nodes").is_empty());
        assert_eq!(number(ALLOCATED, "isolated_cores"), Some(1));
        let node = "---\nTOTAL_RECORDS: 1\nRecord_1:\n  discovered_cores: 44\n";
        assert_eq!(number(node, "discovered_cores"), Some(44));
        assert_eq!(
            number("Thread(s) per core:  4\n", "Thread(s) per core"),
            Some(4)
        );
        assert_eq!(number(node, "discovered_gpus"), None);
    }

    #[test]
    fn hosts_that_were_not_given_are_the_nodes_with_a_rank_for_each_gpu() {
        let facts = LsfFacts {
            nodes: vec!["a".to_owned(), "b".to_owned()],
            cores: 42,
            threads: 4,
            gpus: 6,
        };
        let mut open = job("x:1", 1);
        open.hosts.clear();
        open.placements.clear();
        assert_eq!(facts.fill_in(&open, None).unwrap().placements.len(), 12);
        let seven = facts.fill_in(&open, Some(7)).unwrap();
        assert_eq!((seven.placements.len(), seven.hosts[1].slots), (7, 6));
        assert!(facts.fill_in(&open, Some(13)).is_err());
        assert_eq!(
            facts.fill_in(&job("x:1", 1), None).unwrap().hosts[0].name,
            "x"
        );
    }
}
