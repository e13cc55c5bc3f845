//! Grid Engine's `qrsh -inherit` as the way to a host of the job. Without `-nostdin` it passes
//! standard input on; like ssh, it hands one line to the login shell there. The parallel
//! environment must have `control_slaves TRUE`. Written from its documentation; not run on a real
//! Grid Engine.

use std::ffi::OsString;

use super::words;
use crate::hosts::ssh::shell_line;

/// Program and arguments.
pub(super) fn command(host: &str, interpreter: &str) -> Vec<OsString> {
    words(&["qrsh", "-inherit", "-V", host, &shell_line(interpreter)])
}
