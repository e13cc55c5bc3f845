//! The file that tells `jsrun` which cores each rank gets (an "explicit resource file"): the threads
//! of a host in equal, contiguous parts, one for each of its GPUs. Pure text.

use std::fmt::Write as _;

use super::lsf::LsfFacts;
use crate::{
    error::{Error, Result},
    spec::JobSpec,
};

/// The text of the file.
pub(crate) fn rankfile(spec: &JobSpec, facts: &LsfFacts) -> Result<String> {
    if let Some(host) = spec.hosts.iter().find(|host| host.slots > facts.gpus) {
        return Err(Error::MoreSlotsThanGpus {
            host: host.hostname().to_owned(),
            slots: host.slots,
            gpus: facts.gpus,
        });
    }
    let each = facts.cores * facts.threads / facts.gpus.max(1);
    let mut text = String::from("overlapping_rs: allow\ncpu_index_using: logical\n");
    for placement in &spec.placements {
        let first = placement.local_rank * each;
        if placement.local_rank == 0 {
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "rank: {}: {{ hostname: {}; cpu: {{{first}-{}}} ; gpu: * ; mem: * }}",
            placement.rank,
            placement.hostname,
            first + each.saturating_sub(1)
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpirun::tests::job;

    fn facts(gpus: u32) -> LsfFacts {
        LsfFacts {
            nodes: Vec::new(),
            cores: 4,
            threads: 4,
            gpus,
        }
    }

    #[test]
    fn each_rank_gets_the_threads_of_its_gpu_and_hosts_end_with_the_last_rank() {
        assert_eq!(
            rankfile(&job("host1:4,host2:4,host3:4", 5), &facts(4)).unwrap(),
            "overlapping_rs: allow\n\
             cpu_index_using: logical\n\
             \n\
             rank: 0: { hostname: host1; cpu: {0-3} ; gpu: * ; mem: * }\n\
             rank: 1: { hostname: host1; cpu: {4-7} ; gpu: * ; mem: * }\n\
             rank: 2: { hostname: host1; cpu: {8-11} ; gpu: * ; mem: * }\n\
             rank: 3: { hostname: host1; cpu: {12-15} ; gpu: * ; mem: * }\n\
             \n\
             rank: 4: { hostname: host2; cpu: {0-3} ; gpu: * ; mem: * }\n"
        );
    }

    #[test]
    fn more_slots_than_gpus_are_refused() {
        let error = rankfile(&job("a:2,b:3", 2), &facts(2)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("host `b` has 3 slots and 2 GPUs"),
            "{error}"
        );
        assert_eq!(error.exit_code(), 2);
    }
}
