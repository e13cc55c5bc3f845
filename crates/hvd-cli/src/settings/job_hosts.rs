//! Which hosts a job has and what starts its agents there: from `-H`, `-hostfile` and `-np`, else
//! from the batch system's allocation, else this machine. Decides; starts nothing.

use anyhow::{Context, Result, bail, ensure};
use hvd_config::Environment;
use hvd_launch::{
    Starter,
    hosts::{Allocation, Host, Scheduler, allocate, parse_hostfile, parse_hosts},
};
use hvd_types::Placement;

use crate::args::{HostArgs, LauncherArg};

/// The hosts of a job.
#[derive(Debug)]
pub(crate) struct JobHosts {
    /// In the order in which they are filled.
    pub(crate) hosts: Vec<Host>,
    /// Set if they are those of a batch system.
    pub(crate) allocation: Option<Allocation>,
}

impl JobHosts {
    /// None yet: `jsrun` takes those of its allocation.
    pub(crate) fn left_to_jsrun() -> Self {
        Self {
            hosts: Vec::new(),
            allocation: None,
        }
    }

    /// The hosts as given, else those of the allocation, else this machine with as many slots as
    /// processes.
    pub(crate) fn choose(args: &HostArgs, environment: &Environment) -> Result<Self> {
        let given = |hosts| Self {
            hosts,
            allocation: None,
        };
        if let Some(file) = &args.hostfile {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read the host file `{}`", file.display()))?;
            return Ok(given(parse_hostfile(file, &text)?));
        }
        if let Some(text) = &args.hosts {
            return Ok(given(parse_hosts(text)?));
        }
        if let Some(allocation) = find_allocation(environment)? {
            return Ok(Self {
                hosts: allocation.hosts.clone(),
                allocation: Some(allocation),
            });
        }
        match args.num_proc {
            Some(ranks) => Ok(given(vec![Host {
                name: "localhost".to_owned(),
                slots: ranks,
            }])),
            None => bail!(
                "the number of processes is missing; give `-np`, e.g. `horovodrun -np 2 python \
                 train.py`, or hosts with `-H`"
            ),
        }
    }

    /// Whether a batch system gives hosts, or would if its variables could be read.
    pub(crate) fn is_allocated(environment: &Environment) -> bool {
        !matches!(find_allocation(environment), Ok(None))
    }

    /// Where they come from, in words, if a batch system gave them.
    pub(crate) fn origin(&self) -> Option<String> {
        self.allocation.as_ref().map(Allocation::origin)
    }

    /// Places as many ranks as were asked for, or as many as there are slots.
    pub(crate) fn place(&self, args: &HostArgs) -> Result<Vec<Placement>> {
        if self.hosts.is_empty() {
            return Ok(Vec::new());
        }
        let slots = || self.hosts.iter().map(|host| host.slots).sum();
        let ranks = args.num_proc.unwrap_or_else(slots);
        ensure!(
            ranks > 0,
            "the hosts have no slots; give e.g. `-H localhost:4`"
        );
        let placements = match &self.allocation {
            Some(allocation) => allocation.allocate(ranks)?,
            None => allocate(&self.hosts, ranks)?,
        };
        Ok(placements)
    }

    /// What starts the agents of other hosts: as asked for, else the batch system's own command if
    /// all hosts are its, else ssh.
    pub(crate) fn starter(&self, args: &HostArgs, environment: &Environment) -> Result<Starter> {
        let batch_starter = match args.launcher {
            None if is_about_ssh(args) => return Ok(Starter::Ssh),
            None => return Ok(self.default_starter(environment)),
            // With `mpirun` there are no agents: `crate::mpi`.
            Some(LauncherArg::Ssh | LauncherArg::Mpirun) => return Ok(Starter::Ssh),
            Some(LauncherArg::Agents) => {
                ensure!(
                    args.agents.is_some(),
                    "`--launcher agents` needs the port at which they call; give `--agents PORT`, \
                     e.g. `--agents 4711`"
                );
                return Ok(Starter::Ssh);
            }
            Some(LauncherArg::Srun) => Starter::Srun,
            Some(LauncherArg::Blaunch) => Starter::Blaunch,
            Some(LauncherArg::Qrsh) => Starter::Qrsh,
        };
        ensure!(
            !is_about_ssh(args),
            "`--launcher {}` takes no options for ssh or agents; omit them",
            batch_starter.program()
        );
        let is_there = BATCH_JOBS.iter().any(|(starter, _, variable)| {
            *starter == batch_starter && environment.text(variable).is_some()
        });
        ensure!(is_there, no_batch_job(batch_starter));
        Ok(batch_starter)
    }

    fn default_starter(&self, environment: &Environment) -> Starter {
        // Kubeflow's stand-in for ssh was set up for this job.
        if environment.text("OMPI_MCA_plm_rsh_agent").is_some() {
            return Starter::Ssh;
        }
        let found = match &self.allocation {
            Some(allocation) => Some(allocation.clone()),
            // Hosts were given: an allocation that cannot be read does not matter.
            None => find_allocation(environment).ok().flatten(),
        };
        let Some(allocation) = found else {
            return Starter::Ssh;
        };
        let is_allocated = |host: &Host| {
            let mut allocated = allocation.hosts.iter();
            host.user().is_none() && allocated.any(|other| other.hostname() == host.hostname())
        };
        if self.hosts.iter().all(is_allocated) {
            Starter::of(allocation.scheduler)
        } else {
            Starter::Ssh
        }
    }
}

/// What starts agents in a job of a batch system, and the variable that shows such a job.
const BATCH_JOBS: [(Starter, Scheduler, &str); 3] = [
    (Starter::Srun, Scheduler::Slurm, "SLURM_JOB_ID"),
    (Starter::Blaunch, Scheduler::Lsf, "LSB_JOBID"),
    (Starter::Qrsh, Scheduler::Sge, "PE_HOSTFILE"),
];

fn no_batch_job(starter: Starter) -> String {
    let mut jobs = BATCH_JOBS.iter();
    let (name, variable, inside) = match jobs.find(|(known, ..)| *known == starter) {
        Some((_, Scheduler::Slurm, variable)) => ("Slurm", variable, "salloc or sbatch"),
        Some((_, Scheduler::Lsf, variable)) => ("LSF", variable, "bsub"),
        Some((_, _, variable)) => ("Grid Engine", variable, "qsub -pe"),
        None => ("batch", &"", "it"),
    };
    format!(
        "`--launcher {}` needs a {name} job, and {variable} is not set; start horovodrun inside \
         {inside}, or omit `--launcher`",
        starter.program()
    )
}

/// Whether options were typed that mean something to ssh or to agents only.
fn is_about_ssh(args: &HostArgs) -> bool {
    args.agents.is_some()
        || args.ssh_port.is_some()
        || args.ssh_identity_file.is_some()
        || args.ssh_strict
        || args.no_host_key_check
}

fn find_allocation(environment: &Environment) -> Result<Option<Allocation>> {
    Ok(Allocation::find(environment, &|path| {
        std::fs::read_to_string(path)
    })?)
}
