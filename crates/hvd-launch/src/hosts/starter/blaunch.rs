//! LSF's `blaunch` as the way to a host of the job. Without `-n` it passes standard input on.
//! Written from its documentation; not run on a real LSF.

use std::ffi::OsString;

use super::words;
use crate::hosts::ssh::script;

/// Program and arguments.
pub(super) fn command(host: &str, interpreter: &str) -> Vec<OsString> {
    words(&[
        "blaunch",
        "-no-shell",
        host,
        "/bin/sh",
        "-c",
        &script(interpreter),
    ])
}
