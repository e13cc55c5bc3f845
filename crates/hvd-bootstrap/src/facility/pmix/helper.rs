//! The exchange by PMIx in a process of its own, which the rank starts and which ends before the rank
//! goes on. The announcement travels over pipes; its secret is on no command line.
//!
//! ```text
//! rank   -> helper   what rank 0 announces, or nothing                      standard input
//! helper -> rank     the size of the job, a line; the announcement, a line  standard output
//! ```

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use hvd_config::Environment;

use super::{Facility, Pmix, within};

/// A rank's way to PMIx.
pub(crate) struct PmixHelper {
    command: Vec<String>,
    size: Option<u32>,
}

impl PmixHelper {
    /// `command` calls [`run`] in a new process.
    pub(crate) fn new(command: Vec<String>) -> Self {
        Self {
            command,
            size: None,
        }
    }

    fn start(&self, text: Option<&str>) -> Result<Child, String> {
        let (program, arguments) = self.command.split_first().ok_or("there is no helper")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start `{program}`: {error}"))?;
        if let Some(mut input) = child.stdin.take() {
            let sent = input.write_all(text.unwrap_or_default().as_bytes());
            sent.map_err(|error| format!("the helper ended early: {error}"))?;
        }
        Ok(child)
    }
}

impl Facility for PmixHelper {
    fn name(&self) -> String {
        "PMIx".to_owned()
    }

    fn size(&mut self) -> Option<u32> {
        self.size
    }

    fn share(&mut self, text: Option<&str>, end: Instant) -> Result<String, String> {
        let mut child = self.start(text)?;
        let output = child.stdout.take();
        let left = end.saturating_duration_since(Instant::now());
        let read = within(left, move || {
            let mut text = String::new();
            let read = output.map_or(Ok(0), |mut output| output.read_to_string(&mut text));
            read.map(|_| text)
        });
        if read.is_none() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        let Some(answer) = read else {
            return Err(format!(
                "not all ranks have called hvd.init() within {} s, or some use another way than \
                 PMIx; HOROVOD_GLOO_TIMEOUT_SECONDS is how long to wait",
                left.as_secs()
            ));
        };
        let answer = answer.map_err(|error| error.to_string())?;
        let (size, text) = answer
            .split_once('\n')
            .filter(|_| status.success())
            .ok_or_else(|| format!("the process that uses it failed ({status})"))?;
        self.size = size.parse().ok();
        Ok(text.trim().to_owned())
    }
}

/// What the helper does; the text of its failure goes to standard error.
pub(crate) fn run(environment: &Environment, end: Instant) -> Result<(), String> {
    let mut announced = String::new();
    let read = io::stdin()
        .take(super::super::LONGEST)
        .read_to_string(&mut announced);
    read.map_err(|error| error.to_string())?;
    let mut pmix = Pmix::open(environment)?;
    let size = pmix.size().unwrap_or_default();
    let text = pmix.share(
        Some(announced.as_str()).filter(|text| !text.is_empty()),
        end,
    );
    pmix.finish();
    let text = text?;
    let mut output = io::stdout();
    let written = writeln!(output, "{size}\n{text}").and_then(|()| output.flush());
    written.map_err(|error| error.to_string())
}
