//! Reaching other hosts: how a process is started there, and what is said when that fails.

pub mod ssh;
