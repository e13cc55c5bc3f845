//! Everything that calls MPI or touches memory that MPI uses, behind safe types: the opened
//! [`library`], its [`abi`], the [`functions`] and handles that are used of it, [`binding`]s that
//! call them, and [`request`]s that keep the memory that MPI uses.
//!
//! Must not know: which library is wanted, what the bytes mean, when to finalize.

#![expect(unsafe_code, reason = "MPI is functions and handles found at run time")]

mod abi;
mod at_exit;
mod binding;
mod functions;
mod library;
mod request;

pub(crate) use abi::Abi;
pub(crate) use at_exit::on_exit_call;
pub(crate) use binding::{Address, CallResult, Calls, bind};
pub(crate) use library::DynamicLibrary;
pub(crate) use request::{BorrowedSend, Receive, Send};
