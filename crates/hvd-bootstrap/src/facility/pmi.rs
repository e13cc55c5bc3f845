//! The PMI-1 protocol of MPICH's Hydra, of Intel MPI and of `srun --mpi=pmi2`: lines of text over a
//! descriptor (`PMI_FD`) or a connection (`PMI_PORT`) to the launcher.
//!
//! ```text
//! rank     -> launcher   cmd=init pmi_version=1 pmi_subversion=1      to Slurm, unless MPI has done it
//! rank     -> launcher   cmd=get_my_kvsname                           kvsname=K
//! rank 0   -> launcher   cmd=put kvsname=K key=horovod value=...      rc=0
//! rank     -> launcher   cmd=barrier_in                               cmd=barrier_out, from all
//! rank     -> launcher   cmd=get kvsname=K key=horovod                rc=0 value=...
//! ```
//!
//! Hydra needs no greeting, but ends the job if a process that has asked it something exits without
//! `cmd=finalize`. That is sent when the process exits and not before: MPI could not be initialised
//! afterwards. If MPI is initialised then, it is MPI that sends it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hvd_config::Environment;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Facility;
use crate::loaded;

/// The key of the announcement.
const KEY: &str = "horovod";

/// How long the end of a process may be held up.
const FINALIZE_TIMEOUT: Duration = Duration::from_secs(2);

/// A line is shorter: values have at most 1024 bytes, 4096 with Intel MPI.
const LONGEST_LINE: usize = 16 * 1024;

/// Whether this process has introduced itself: once is all that the launcher takes.
static GREETED: AtomicBool = AtomicBool::new(false);

/// A rank's connection to its launcher.
#[derive(Debug)]
pub(crate) struct Pmi {
    stream: PmiStream,
    received: Vec<u8>,
    init: InitCommand,
}

/// Whether a launcher has to be greeted before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InitCommand {
    /// Slurm does: it learns which protocol is spoken.
    Send,
    /// Hydra does not.
    Skip,
}

/// What the lines travel over.
#[derive(Debug)]
enum PmiStream {
    /// A duplicate of the descriptor that the launcher has left open.
    Descriptor(std::fs::File),
    Socket(TcpStream),
}

impl Pmi {
    /// Opens what the launcher's variables name, and greets it unless MPI has done so already.
    pub(crate) fn open(environment: &Environment, init: InitCommand) -> Result<Self, String> {
        let stream = if let Some(text) = environment.text("PMI_FD") {
            let descriptor = text.trim().parse().ok();
            let descriptor =
                descriptor.ok_or_else(|| format!("PMI_FD=`{text}` is not a number"))?;
            PmiStream::Descriptor(duplicate(descriptor).map_err(|error| {
                format!(
                    "PMI_FD={descriptor} is not open here ({error}): something between the launcher \
                     and this process closes descriptors; set HOROVOD_BOOTSTRAP=file"
                )
            })?)
        } else if let Some(text) = environment.text("PMI_PORT") {
            let stream = TcpStream::connect(text.trim());
            PmiStream::Socket(
                stream.map_err(|error| format!("cannot connect to PMI_PORT={text}: {error}"))?,
            )
        } else {
            return Err("neither PMI_FD nor PMI_PORT is set; unset HOROVOD_BOOTSTRAP".to_owned());
        };
        let mut pmi = Self {
            stream,
            received: Vec::new(),
            init,
        };
        if !GREETED.swap(true, Ordering::Relaxed) && !loaded::mpi_is_initialized() {
            pmi.greet(environment, init)?;
        }
        Ok(pmi)
    }

    fn greet(&mut self, environment: &Environment, init: InitCommand) -> Result<(), String> {
        let end = Instant::now() + super::pmix::STEP;
        if matches!(self.stream, PmiStream::Socket(_)) {
            let id = environment.text("PMI_ID").unwrap_or("0");
            self.say(&format!("cmd=initack pmiid={id}"))?;
            // The answer, and then rank, size and debug level.
            for _ in 0..4 {
                self.line(end)?;
            }
        }
        if init == InitCommand::Send {
            self.ask("cmd=init pmi_version=1 pmi_subversion=1", end)?;
        }
        Ok(())
    }

    /// The answer to a request, refused unless it ends well.
    fn ask(&mut self, request: &str, end: Instant) -> Result<String, String> {
        self.say(request)?;
        let answer = self.line(end)?;
        match field(&answer, "rc") {
            Some("0") | None => Ok(answer),
            Some(_) => Err(format!(
                "the launcher answered `{answer}` to `{}`",
                command_of(request)
            )),
        }
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        let line = format!("{line}\n");
        let sent = match &mut self.stream {
            PmiStream::Descriptor(file) => file.write_all(line.as_bytes()),
            PmiStream::Socket(socket) => socket.write_all(line.as_bytes()),
        };
        sent.map_err(|error| format!("the launcher has closed its connection: {error}"))
    }

    fn line(&mut self, end: Instant) -> Result<String, String> {
        loop {
            if let Some(at) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=at).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.received.len() > LONGEST_LINE {
                return Err("the launcher's answer has no end".to_owned());
            }
            self.receive(end)?;
        }
    }

    fn receive(&mut self, end: Instant) -> Result<(), String> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(
                "not all ranks have called hvd.init() in time; HOROVOD_GLOO_TIMEOUT_SECONDS is how \
                 long to wait"
                    .to_owned(),
            );
        }
        let mut piece = [0; 1024];
        let failed = |error: io::Error| format!("reading from the launcher: {error}");
        let count = match &mut self.stream {
            PmiStream::Descriptor(file) => wait(file, left).and_then(|ready| {
                if ready {
                    file.read(&mut piece)
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            }),
            PmiStream::Socket(socket) => wait(socket, left).and_then(|ready| {
                if ready {
                    socket.read(&mut piece)
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            }),
        };
        match count {
            Ok(0) => Err("the launcher has closed its connection".to_owned()),
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(failed(error)),
        }
    }
}

fn wait(stream: &impl std::os::fd::AsFd, left: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(left).ok();
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    match poll(&mut polled, timeout.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Duplicates a descriptor that this process has inherited, so that MPI's own stays as it is.
fn duplicate(descriptor: RawFd) -> io::Result<std::fs::File> {
    let owned: OwnedFd = crate::os::duplicate(descriptor)?;
    Ok(owned.into())
}

/// The value of `name` in `cmd=... name=value ...`; a value that ends the line may contain spaces.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Without its values: one of them is the job's key.
fn command_of(request: &str) -> &str {
    request.split(' ').next().unwrap_or_default()
}

impl Facility for Pmi {
    fn name(&self) -> String {
        "PMI".to_owned()
    }

    fn share(&mut self, text: Option<&str>, end: Instant) -> Result<String, String> {
        let answer = self.ask("cmd=get_my_kvsname", end)?;
        let name = field(&answer, "kvsname")
            .ok_or_else(|| format!("odd answer `{answer}`"))?
            .to_owned();
        if let Some(text) = text {
            self.ask(
                &format!("cmd=put kvsname={name} key={KEY} value={text}"),
                end,
            )?;
        }
        self.ask("cmd=barrier_in", end)?;
        if let Some(text) = text {
            return Ok(text.to_owned());
        }
        let answer = self.ask(&format!("cmd=get kvsname={name} key={KEY}"), end)?;
        let value = field(&answer, "value").map(str::to_owned);
        value.ok_or_else(|| "the launcher has no value of rank 0".to_owned())
    }

    fn finish(&mut self) {
        if self.init == InitCommand::Send || loaded::mpi_is_initialized() {
            return;
        }
        let end = Instant::now() + FINALIZE_TIMEOUT;
        if let Err(reason) = self.ask("cmd=finalize", end) {
            tracing::info!("taking leave of the launcher: {reason}");
        }
    }
}
