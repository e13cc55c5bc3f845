//! The ops: what each looks like to TensorFlow, and what it asks of the engine.
//!
//! Names, attributes and shapes are upstream's. `tensor_name` is new: outside of graphs a node has
//! no name of its own, so there the name that ranks agree on comes with the call.

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod broadcast;
mod join;
mod options;
mod placement;
mod reducescatter;
mod submit;

use std::sync::Mutex;
use std::sync::PoisonError;

use crate::error::Result;
use crate::ffi::{Kernel, Registrar};

/// Does the same with every op.
macro_rules! for_each_op {
    ($apply:ident) => {
        [
            $apply!(allreduce::Allreduce),
            $apply!(allreduce::GroupedAllreduce),
            $apply!(allgather::Allgather),
            $apply!(allgather::GroupedAllgather),
            $apply!(broadcast::Broadcast),
            $apply!(alltoall::Alltoall),
            $apply!(reducescatter::Reducescatter),
            $apply!(reducescatter::GroupedReducescatter),
            $apply!(join::Join),
            $apply!(barrier::Barrier),
            $apply!(placement::Rank),
            $apply!(placement::Size),
            $apply!(placement::LocalRank),
            $apply!(placement::LocalSize),
            $apply!(placement::ProcessSetIncluded),
        ]
    };
}

/// Whether the ops are registered; TensorFlow takes each of them once.
static REGISTERED: Mutex<bool> = Mutex::new(false);

/// Registers all ops.
pub(crate) fn register_all() -> Result<()> {
    type Register = fn(&Registrar) -> Result<()>;
    macro_rules! register {
        ($op:ty) => {
            |registrar: &Registrar| registrar.register::<$op>()
        };
    }
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if *registered {
        return Ok(());
    }
    let registrar = Registrar::new()?;
    let all: [Register; 15] = for_each_op!(register);
    all.iter().try_for_each(|register| register(&registrar))?;
    *registered = true;
    Ok(())
}

/// The names of all ops.
pub(crate) fn names() -> Vec<&'static str> {
    macro_rules! name {
        ($op:ty) => {
            <$op as Kernel>::DEFINITION.name
        };
    }
    let names = for_each_op!(name);
    names.iter().filter_map(|name| name.to_str().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ops_have_names_of_their_own_with_the_common_prefix() {
        let names = names();
        let different: HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), 15);
        assert!(names.iter().all(|name| name.starts_with("Horovod")));
    }
}
