//! Facts of the machine: who it is, what it has, what it allows. Reads a few files of the kernel;
//! each function answers `None` or nothing where the kernel does not say.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    process::{Resource, getrlimit},
};
use serde::{Deserialize, Serialize};

/// Main memory in bytes, as far as the container may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineMemory {
    pub(crate) total: u64,
    pub(crate) available: u64,
}

/// A file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskSpace {
    pub(crate) size: u64,
    /// What an ordinary user may still write.
    pub(crate) free: u64,
    /// Files that can still be made; `None` if the file system does not count them.
    pub(crate) free_files: Option<u64>,
    pub(crate) read_only: bool,
}

/// What a rank may use of the system; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResourceLimits {
    pub(crate) open_files: Option<u64>,
    /// How far a rank may raise that by itself.
    pub(crate) open_files_most: Option<u64>,
    /// Bytes of memory that may be locked, as fast networks need.
    pub(crate) locked_memory: Option<u64>,
}

/// What kind of container a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Container {
    None,
    Docker,
    Podman,
    Kubernetes,
    Singularity,
}

impl Container {
    /// Its name as people write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Kubernetes => "kubernetes",
            Self::Singularity => "singularity",
        }
    }
}

pub(super) fn hostname() -> String {
    kernel_line("/proc/sys/kernel/hostname")
}

pub(super) fn kernel() -> String {
    kernel_line("/proc/sys/kernel/osrelease")
}

/// Which boot of which kernel, which network, which processes, which name. Two containers on the
/// network of their machine have its name and its addresses; that their processes do not see each
/// other tells them apart.
pub(super) fn identity() -> String {
    let boot = kernel_line("/proc/sys/kernel/random/boot_id");
    let space = |kind| fs::metadata(Path::new("/proc/self/ns").join(kind)).map(|it| it.ino());
    match (space("net"), space("pid")) {
        (Ok(network), Ok(processes)) if !boot.is_empty() => {
            format!("{boot}/{network}/{processes}/{}", hostname())
        }
        _ => String::new(),
    }
}

fn kernel_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

/// The model of the first processor. Only the beginning of the list is read: on large machines the
/// kernel takes long to write the rest.
pub(super) fn cpu_model() -> Option<String> {
    let mut beginning = Vec::new();
    let file = File::open("/proc/cpuinfo").ok()?;
    file.take(4096).read_to_end(&mut beginning).ok()?;
    model_in(&String::from_utf8_lossy(&beginning))
}

fn model_in(cpuinfo: &str) -> Option<String> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let mut models = fields.filter(|(name, _)| matches!(name.trim(), "model name" | "cpu model"));
    models.next().map(|(_, model)| model.trim().to_owned())
}

pub(super) fn memory() -> Option<MachineMemory> {
    let machine = memory_in(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current");
    Some(within(machine, limit, used))
}

fn memory_in(meminfo: &str) -> Option<MachineMemory> {
    let kilobytes = |wanted: &str| {
        let mut fields = meminfo.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(name, _)| *name == wanted)?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(MachineMemory {
        total: kilobytes("MemTotal")? * 1024,
        available: kilobytes("MemAvailable")? * 1024,
    })
}

/// A container sees the memory of the whole machine and dies at its own limit.
fn within(machine: MachineMemory, limit: Option<u64>, used: Option<u64>) -> MachineMemory {
    let Some(limit) = limit else {
        return machine;
    };
    let left = limit.saturating_sub(used.unwrap_or(0));
    MachineMemory {
        total: machine.total.min(limit),
        available: machine.available.min(left),
    }
}

pub(super) fn space(path: &str) -> Option<DiskSpace> {
    let answer = statvfs(path).ok()?;
    let counts_files = answer.f_files > 0;
    Some(DiskSpace {
        size: answer.f_blocks.saturating_mul(answer.f_frsize),
        free: answer.f_bavail.saturating_mul(answer.f_frsize),
        free_files: counts_files.then_some(answer.f_favail),
        read_only: answer.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

pub(super) fn limits() -> ResourceLimits {
    let files = getrlimit(Resource::Nofile);
    ResourceLimits {
        open_files: files.current,
        open_files_most: files.maximum,
        locked_memory: getrlimit(Resource::Memlock).current,
    }
}

/// The name of a user of this machine; users of a directory service are not known here.
pub(super) fn user(uid: u32) -> Option<String> {
    user_in(&fs::read_to_string("/etc/passwd").ok()?, uid)
}

fn user_in(passwd: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    let mut users = passwd.lines().map(|line| line.split(':'));
    users.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

/// The kind of container whose root file system is at `root`. Asks files only: the environment of
/// the ranks may come from a driver that sits in another kind.
pub(super) fn container(root: &Path) -> Container {
    let exists = |path: &str| root.join(path).exists();
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let mut traces = text("proc/self/cgroup");
    traces.push_str(&own_mounts(&text("proc/self/mountinfo")));
    let is_pod = traces.contains("kubepods") || traces.contains("kubelet/pods");
    if exists(".singularity.d") {
        Container::Singularity
    } else if exists("var/run/secrets/kubernetes.io") || is_pod {
        Container::Kubernetes
    } else if exists("run/.containerenv") || traces.contains("libpod") {
        Container::Podman
    } else if exists(".dockerenv") || traces.contains("/docker/") || traces.contains("docker-") {
        Container::Docker
    } else {
        Container::None
    }
}

/// Where `/etc/hosts` comes from, which container engines put there. Other mounts say nothing: a
/// machine that runs containers lists theirs.
fn own_mounts(mountinfo: &str) -> String {
    let fields = mountinfo.lines().map(|line| line.split(' ').skip(3));
    let sources = fields.filter_map(|mut fields| {
        let source = fields.next()?;
        (fields.next()? == "/etc/hosts").then_some(source)
    });
    sources.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_itself_and_has_a_boot_a_network_and_processes() {
        assert_eq!(identity(), identity());
        let parts: Vec<String> = identity().split('/').map(str::to_owned).collect();
        assert_eq!(parts.len(), 4, "{parts:?}");
        assert!(parts[1..3].iter().all(|part| part.parse::<u64>().is_ok()));
    }

    #[test]
    fn kernel_texts_are_read() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: A CPU: fast\nflags\t: x\n";
        assert_eq!(model_in(cpuinfo).as_deref(), Some("A CPU: fast"));
        assert_eq!(model_in("processor : 0\nBogoMIPS : 50\n"), None);
        let meminfo = "MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:   600 kB\n";
        let machine = memory_in(meminfo).unwrap();
        assert_eq!(machine.total, 1_024_000);
        assert_eq!(machine.available, 614_400);
        assert_eq!(memory_in("MemTotal: 1 kB\n"), None);
        let passwd = "root:x:0:0::/root:/bin/sh\n\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(user_in(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(user_in(passwd, 7), None);
    }

    #[test]
    fn memory_ends_at_the_containers_limit() {
        let machine = MachineMemory {
            total: 100,
            available: 80,
        };
        assert_eq!(within(machine, None, Some(1)), machine);
        let expected = MachineMemory {
            total: 50,
            available: 20,
        };
        assert_eq!(within(machine, Some(50), Some(30)), expected);
    }

    #[test]
    fn file_systems_are_measured() {
        let here = space("/tmp").unwrap();
        assert!(here.size >= here.free && here.size > 0 && !here.read_only);
        assert_eq!(space("/no/such/directory"), None);
    }

    #[test]
    fn containers_are_recognised_by_their_traces() {
        let cases = [
            ("nothing", "", Container::None),
            (".dockerenv", "", Container::Docker),
            ("run/.containerenv", "", Container::Podman),
            (".singularity.d/runscript", "", Container::Singularity),
            (
                "proc/self/cgroup",
                "0::/kubepods/pod1\n",
                Container::Kubernetes,
            ),
            (
                "proc/self/cgroup",
                "0::/system.slice/kubelet.service\n",
                Container::None,
            ),
            ("proc/self/cgroup", "0::/docker/4f\n", Container::Docker),
            ("proc/self/cgroup", "0::/user.slice\n", Container::None),
            (
                "proc/self/mountinfo",
                "1 2 8:1 /kubelet/pods/7/etc-hosts /etc/hosts rw - ext4 d rw\n",
                Container::Kubernetes,
            ),
            // A machine with containers on it.
            (
                "proc/self/mountinfo",
                "1 2 8:1 / /var/lib/docker/containers/7/mounts/shm rw - tmpfs shm rw\n",
                Container::None,
            ),
        ];
        for (file, content, expected) in cases {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            assert_eq!(container(root.path()), expected, "{file} {content}");
        }
    }
}
