//! Variables and files as batch systems write them, and what becomes of them.

use super::*;

/// What is found with these variables; a path stands for the text of its file.
fn find(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Option<Allocation>> {
    let environment: Environment = variables.iter().copied().collect();
    Allocation::find(&environment, &|path| {
        let mut files = files.iter();
        let file = files.find(|(name, _)| Path::new(name) == path);
        file.map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    })
}

/// In one line: the job, its hosts, and what the slots come from.
fn line(variables: &[(&str, &str)], files: &[(&str, &str)]) -> String {
    let allocation = find(variables, files).unwrap().unwrap();
    let hosts: Vec<String> = allocation.hosts.iter().map(Host::to_string).collect();
    format!(
        "{allocation}: {} by {}",
        hosts.join(","),
        allocation.slots_from
    )
}

fn refusal(variables: &[(&str, &str)], files: &[(&str, &str)]) -> String {
    find(variables, files).unwrap_err().to_string()
}

#[test]
fn without_a_batch_system_there_is_no_allocation() {
    assert_eq!(find(&[], &[]).unwrap(), None);
    // A shell that kept the number of a job, but not its nodes.
    assert_eq!(find(&[("SLURM_JOB_ID", "17")], &[]).unwrap(), None);
    assert_eq!(find(&[("LSB_JOBID", "17")], &[]).unwrap(), None);
}

/// Commands, the variables that Slurm 22.05 sets in their jobs of the nodes n1 and n2, and what is
/// made of them.
const SLURM_JOBS: [(&str, &str, &str); 9] = [
    (
        "salloc -N2",
        "TASKS_PER_NODE=1(x2) JOB_CPUS_PER_NODE=1(x2)",
        "n1:1,n2:1 by SLURM_JOB_CPUS_PER_NODE",
    ),
    (
        "salloc -N2 --ntasks-per-node=2",
        "NTASKS=4 TASKS_PER_NODE=2(x2) JOB_CPUS_PER_NODE=2(x2)",
        "n1:2,n2:2 by SLURM_TASKS_PER_NODE",
    ),
    (
        "salloc -n 3 -N2",
        "NTASKS=3 TASKS_PER_NODE=2,1 JOB_CPUS_PER_NODE=2,1",
        "n1:2,n2:1 by SLURM_TASKS_PER_NODE",
    ),
    (
        "salloc -N2 --gpus-per-node=a100:4",
        "GPUS_PER_NODE=a100:4 TASKS_PER_NODE=1(x2) JOB_CPUS_PER_NODE=1(x2)",
        "n1:4,n2:4 by SLURM_GPUS_PER_NODE",
    ),
    (
        "sbatch -N2 --gres=gpu:2",
        "GPUS_ON_NODE=2 TASKS_PER_NODE=1(x2) JOB_CPUS_PER_NODE=1(x2)",
        "n1:2,n2:2 by SLURM_GPUS_ON_NODE",
    ),
    (
        "salloc -N2 --gpus=4",
        "GPUS=4 TASKS_PER_NODE=1(x2) JOB_CPUS_PER_NODE=1(x2)",
        "n1:2,n2:2 by SLURM_GPUS",
    ),
    (
        "salloc -N2 --exclusive",
        "TASKS_PER_NODE=4(x2) JOB_CPUS_PER_NODE=4(x2)",
        "n1:4,n2:4 by SLURM_JOB_CPUS_PER_NODE",
    ),
    (
        "salloc -N2 -c 2 --exclusive",
        "CPUS_PER_TASK=2 JOB_CPUS_PER_NODE=8,3",
        "n1:4,n2:1 by SLURM_JOB_CPUS_PER_NODE",
    ),
    ("no numbers at all", "", "n1:1,n2:1 by SLURM_JOB_NODELIST"),
];

#[test]
fn slurm_gives_tasks_if_asked_for_else_gpus_else_cpus() {
    for (command, variables, expected) in SLURM_JOBS {
        let all = format!("JOB_ID=17 JOB_NODELIST=n[1-2] {variables}");
        let named: Vec<(String, &str)> = all
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(name, value)| (format!("SLURM_{name}"), value))
            .collect();
        let named: Vec<(&str, &str)> = named
            .iter()
            .map(|(name, value)| (&**name, *value))
            .collect();
        assert_eq!(
            line(&named, &[]),
            format!("Slurm job 17: {expected}"),
            "{command}"
        );
    }
}

#[test]
fn the_older_names_of_slurm_are_known() {
    let variables = [("SLURM_JOBID", "8"), ("SLURM_NODELIST", "gpu1")];
    assert_eq!(
        line(&variables, &[]),
        "Slurm job 8: gpu1:1 by SLURM_JOB_NODELIST"
    );
}

#[test]
fn a_wrong_text_names_its_variable() {
    let job = ("SLURM_JOB_ID", "17");
    let list = ("SLURM_JOB_NODELIST", "n[1-2]");
    assert_eq!(
        refusal(&[job, ("SLURM_JOB_NODELIST", "n[1-")], &[]),
        "the hosts of the Slurm job cannot be read from SLURM_JOB_NODELIST (`n[1-`): it has a `[` \
         without `]`; list them with `-H`, e.g. `-H node1:4,node2:4`"
    );
    for (more, variable) in [
        (
            ("SLURM_JOB_CPUS_PER_NODE", "4(x3)"),
            "SLURM_JOB_CPUS_PER_NODE",
        ),
        (("SLURM_GPUS_PER_NODE", "many"), "SLURM_GPUS_PER_NODE"),
        (("SLURM_GPUS", "3"), "SLURM_GPUS"),
    ] {
        let said = refusal(&[job, list, more], &[]);
        assert!(said.contains(&format!("from {variable} (")), "{said}");
    }
    let said = refusal(&[job, ("SLURM_JOB_NODELIST", "n1;rm")], &[]);
    assert!(said.contains("a host name has letters"), "{said}");
    let said = refusal(&[("PBS_NODEFILE", "/gone")], &[]);
    assert!(
        said.contains("PBS_NODEFILE (`/gone`): the file cannot be read"),
        "{said}"
    );
    let said = refusal(&[("PE_HOSTFILE", "/f")], &[("/f", "node1\n")]);
    assert!(
        said.contains("the line `node1` has no number of slots"),
        "{said}"
    );
    let said = refusal(&[("LSB_JOBID", "1"), ("LSB_MCPU_HOSTS", "a 2 b")], &[]);
    assert!(said.contains("has no number of slots"), "{said}");
}

#[test]
fn a_step_of_several_tasks_is_refused() {
    let job = ("SLURM_JOB_ID", "17");
    let list = ("SLURM_JOB_NODELIST", "n[1-2]");
    let said = refusal(&[job, list, ("SLURM_STEP_NUM_TASKS", "4")], &[]);
    assert!(
        said.starts_with("srun started horovodrun 4 times"),
        "{said}"
    );
    // `srun --pty bash`.
    assert!(find(&[job, list, ("SLURM_STEP_NUM_TASKS", "1")], &[]).is_ok());
}

#[test]
fn lsf_lists_hosts_in_three_ways() {
    let job = ("LSB_JOBID", "9");
    let file = [("/hosts", "a\na\nb\nb\nb\n")];
    let listed = [
        line(&[job, ("LSB_DJOB_HOSTFILE", "/hosts")], &file),
        line(&[job, ("LSB_MCPU_HOSTS", "a 2 b 3 ")], &[]),
        line(&[job, ("LSB_HOSTS", "a a b b b")], &[]),
    ];
    assert_eq!(
        listed,
        [
            "LSF job 9: a:2,b:3 by LSB_DJOB_HOSTFILE",
            "LSF job 9: a:2,b:3 by LSB_MCPU_HOSTS",
            "LSF job 9: a:2,b:3 by LSB_HOSTS",
        ]
    );
}

#[test]
fn the_launch_node_of_lsf_takes_no_rank() {
    let job = ("LSB_JOBID", "9");
    let csm = ("CSM_ALLOCATION_ID", "5");
    let hosts = |text| ("LSB_MCPU_HOSTS", text);
    assert!(
        line(&[job, hosts("batch5 1 h41n08 42 h41n09 42")], &[])
            .contains(": h41n08:42,h41n09:42 by")
    );
    assert!(line(&[job, csm, hosts("x 1 y 4")], &[]).contains(": y:4 by"));
    // One slot alone does not make a launch node, and a job needs a host.
    assert!(line(&[job, hosts("x 1 y 4")], &[]).contains(": x:1,y:4 by"));
    assert!(line(&[job, hosts("batch5 1")], &[]).contains(": batch5:1 by"));
}

#[test]
fn pbs_has_a_line_for_each_slot() {
    let variables = [("PBS_JOBID", "3.head"), ("PBS_NODEFILE", "/nodes")];
    let files = [("/nodes", "a.lab\nb.lab\na.lab\nb.lab\n\n")];
    assert_eq!(
        line(&variables, &files),
        "PBS job 3.head: a.lab:2,b.lab:2 by PBS_NODEFILE"
    );
    assert!(refusal(&variables, &[("/nodes", "\n")]).contains("it names no host"));
}

#[test]
fn grid_engine_has_a_line_for_each_host_and_queue() {
    let variables = [("JOB_ID", "12"), ("PE_HOSTFILE", "/pe")];
    let files = [(
        "/pe",
        "a 2 all.q@a UNDEFINED\nb 4 all.q@b <NULL>\na 1 gpu.q@a 0,0\n",
    )];
    assert_eq!(
        line(&variables, &files),
        "Grid Engine job 12: a:3,b:4 by PE_HOSTFILE"
    );
}

#[test]
fn two_batch_systems_are_not_chosen_between() {
    let variables = [
        ("SLURM_JOB_ID", "1"),
        ("SLURM_JOB_NODELIST", "n1"),
        ("PE_HOSTFILE", "/pe"),
        ("JOB_ID", "2"),
    ];
    let said = refusal(&variables, &[("/pe", "a 2 q u\n")]);
    assert!(said.contains("Slurm job 1 and Grid Engine job 2"), "{said}");
}

#[test]
fn fewer_ranks_take_a_beginning_and_more_name_the_allocation() {
    let variables = [
        ("SLURM_JOB_ID", "17"),
        ("SLURM_JOB_NODELIST", "n[1-2]"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_TASKS_PER_NODE", "2(x2)"),
    ];
    let allocation = find(&variables, &[]).unwrap().unwrap();
    let placements = allocation.allocate(3).unwrap();
    let names: Vec<&str> = placements.iter().map(|one| &*one.hostname).collect();
    assert_eq!(names, ["n1", "n1", "n2"]);
    let error = allocation.allocate(8).unwrap_err();
    assert_eq!(
        error.to_string(),
        "8 processes do not fit: Slurm job 17 has 4 slots in all, by SLURM_TASKS_PER_NODE; lower \
         `-np` to 4 or less, ask for more with `--ntasks-per-node=N` of sbatch or salloc, or give \
         hosts and slots with `-H`"
    );
    assert_eq!(error.exit_code(), 2);
}
