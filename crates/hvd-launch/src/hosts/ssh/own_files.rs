//! Files of this machine that a remedy names: the wheel that this Horovod was installed from, the
//! files in which `ssh` looks for host keys, and the public key it offers. Looked up only after a
//! host was refused, because all need another program; whatever cannot be found out is left out of
//! the remedy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{Access, access};
use tokio::{
    sync::oneshot,
    time::{Duration, timeout},
};

use super::{
    command::{self, SshOptions},
    recognise::SshFailure,
};
use crate::process::{ReapedBy, Reaper, spawn_detached, subprocess};

/// How long a program may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Prints the path of the wheel, if `pip` recorded one and it is still there.
const WHEEL: &str = "\
import importlib.metadata as m, json, os, urllib.parse as p
u = p.urlsplit(json.loads(m.distribution('horovod').read_text('direct_url.json'))['url'])
f = p.unquote(u.path)
print(f if u.scheme == 'file' and f.endswith('.whl') and os.path.isfile(f) else '')";

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OwnFiles {
    /// The wheel that this Horovod was installed from.
    pub(crate) wheel: Option<String>,
    /// How `ssh` recognises the host; none if it does not say.
    pub(crate) known_hosts: Option<KnownHosts>,
    /// The kind and the text of the first public key that `ssh` offers from a file.
    pub(crate) public_key: Option<String>,
}

/// How `ssh` recognises a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownHosts {
    /// The name or address it connects to.
    pub(crate) name: String,
    /// The port it connects to.
    pub(crate) port: u16,
    /// Those of its files that can be written, in the order in which it reads them.
    pub(crate) writable: Vec<String>,
}

/// Looks for what the remedy for `cause` needs.
pub(crate) async fn find(
    cause: SshFailure,
    options: &SshOptions,
    target: &str,
    interpreter: &str,
    reaper: &Reaper,
) -> OwnFiles {
    let reaped_by = ReapedBy::Reaper(reaper.clone());
    match cause {
        SshFailure::AgentMissing | SshFailure::NoHorovod | SshFailure::CommandNotFound => {
            OwnFiles {
                wheel: wheel(interpreter, reaped_by).await,
                ..OwnFiles::default()
            }
        }
        SshFailure::HostKeyUnknown | SshFailure::HostKeyChanged | SshFailure::KeyRefused => {
            let mut words = command::describe(options, target).into_iter();
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words);
            let settings = output(command, reaped_by).await.unwrap_or_default();
            OwnFiles {
                wheel: None,
                known_hosts: known_hosts(&settings),
                public_key: public_key(&settings, std::env::home_dir()),
            }
        }
        _ => OwnFiles::default(),
    }
}

/// The wheel that the Horovod of this Python was installed from.
pub(crate) async fn wheel(interpreter: &str, reaped_by: ReapedBy) -> Option<String> {
    let mut command = Command::new(interpreter);
    // Away from the job's directory, whose files may be called like Python's own modules.
    command.args(["-c", WHEEL]).current_dir("/");
    let path = output(command, reaped_by).await?;
    let path = path.trim_end_matches('\n');
    (!path.is_empty() && !path.contains(char::is_control)).then(|| path.to_owned())
}

/// What a program prints; on a thread of its own, because it is waited for.
async fn output(mut command: Command, reaped_by: ReapedBy) -> Option<String> {
    let (sender, printed) = oneshot::channel();
    spawn_detached("hvd-own-files", move || {
        let _ = sender.send(subprocess::output(&mut command, TIMEOUT, &reaped_by));
    });
    let printed = timeout(TIMEOUT * 2, printed).await.ok()?.ok()?;
    printed
        .inspect_err(|error| tracing::debug!(%error, "a remedy stays without details"))
        .ok()
}

/// Reads what `ssh -G` prints: one setting a line, its name in lower case.
fn known_hosts(settings: &str) -> Option<KnownHosts> {
    let value = |name: &str| {
        let mut lines = settings.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    };
    let files = ["userknownhostsfile", "globalknownhostsfile"].map(value);
    let files = files.into_iter().flatten().flat_map(str::split_whitespace);
    Some(KnownHosts {
        name: value("hostname")?.to_owned(),
        port: value("port")?.parse().ok()?,
        writable: files
            .filter(|file| can_be_written(Path::new(file)))
            .map(str::to_owned)
            .collect(),
    })
}

/// The first key of `ssh -G` whose public half is in a file, without the comment behind it.
fn public_key(settings: &str, home: Option<PathBuf>) -> Option<String> {
    let home = home.unwrap_or_default();
    let files = settings
        .lines()
        .filter_map(|line| line.strip_prefix("identityfile "));
    files
        .map(|file| match file.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(file),
        })
        .find_map(|file| {
            let text = fs::read_to_string(format!("{}.pub", file.display())).ok()?;
            let mut words = text.split_whitespace();
            let (kind, key) = (words.next()?, words.next()?);
            // It is shown as a line to type.
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-+/=@.".contains(&byte);
            let is_key = kind.bytes().chain(key.bytes()).all(is_plain);
            is_key.then(|| format!("{kind} {key}"))
        })
}

/// Whether lines can be added to a file, which need not exist yet. Removing one needs the
/// directory.
fn can_be_written(file: &Path) -> bool {
    let Some(directory) = file.parent() else {
        return false;
    };
    let enter_and_write = Access::WRITE_OK | Access::EXEC_OK;
    let writable = !file.exists() || access(file, Access::WRITE_OK).is_ok();
    // `none`, and `/dev/null` of `--no-host-key-check`, hold nothing.
    let is_real = file.is_absolute() && !file.starts_with("/dev");
    is_real && writable && access(directory, enter_and_write).is_ok()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// Root may write anywhere but on a read-only file system, so the folder that cannot be written
    /// is one that does not exist.
    #[test]
    fn the_files_that_can_be_written_are_found() {
        let place = tempfile::tempdir().unwrap();
        let there = place.path().join("known_hosts");
        fs::write(&there, "").unwrap();
        fs::set_permissions(&there, fs::Permissions::from_mode(0o600)).unwrap();
        let there = there.to_str().unwrap();
        let new = format!("{}/new", place.path().display());
        let settings = format!(
            "user root\nhostname 10.0.0.2\nport 12345\nglobalknownhostsfile {new} /dev/null\n\
             userknownhostsfile /nowhere/known_hosts {there}\n"
        );
        let found = known_hosts(&settings).unwrap();
        assert_eq!((found.name.as_str(), found.port), ("10.0.0.2", 12345));
        assert_eq!(found.writable, [there, &new]);
        assert_eq!(known_hosts("port 22\n"), None);
    }

    #[test]
    fn the_first_public_key_that_is_one_is_found() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
        write("broken.pub", "ssh-rsa `reboot` me@here\n");
        write("id_ed25519.pub", "ssh-ed25519 AAAA+/= me@here's\n");
        let settings = "identityfile ~/missing\nidentityfile ~/broken\nidentityfile ~/id_ed25519\n";
        let home = Some(place.path().to_owned());
        let found = public_key(settings, home);
        assert_eq!(found.as_deref(), Some("ssh-ed25519 AAAA+/="));
        assert_eq!(public_key("", None), None);
    }
}
