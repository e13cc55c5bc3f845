//! The checks across ranks, in Horovod's order; the first that fails is what users read.
//!
//! Every request is compared with the one that arrived first. A pure function of the requests.

use std::fmt;
use std::sync::Arc;

use hvd_types::{OpKind, Rank};
use hvd_wire::Request;

/// A rank with its host, as texts name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) rank: Rank,
    pub(crate) host: String,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} on host `{}`", self.rank, self.host)
    }
}

/// What one rank asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    pub(crate) party: Party,
    pub(crate) request: Request,
}

/// Two ranks that do not agree on a property, and what each of them has.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{kind} of tensor `{name}`: ranks do not agree on the {what}: {first} has {first_value}, \
     {other} has {other_value}"
)]
pub(crate) struct Disagreement {
    kind: OpKind,
    name: Arc<str>,
    what: String,
    first: Party,
    first_value: String,
    other: Party,
    other_value: String,
}

/// Why a tensor cannot be processed although every rank asked for it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Mismatch {
    /// Two ranks differ.
    #[error(transparent)]
    Disagreement(Box<Disagreement>),
    /// The operation needs every rank.
    #[error(
        "{kind} of tensor `{name}` is not supported while ranks have joined ({joined} now){hint}"
    )]
    Joined {
        kind: OpKind,
        name: Arc<str>,
        joined: usize,
        hint: &'static str,
    },
    /// The operation works along the first dimension, and there is none.
    #[error("{kind} of tensor `{name}`: {party} passed a scalar; at least one dimension is needed")]
    Scalar {
        kind: OpKind,
        name: Arc<str>,
        party: Party,
    },
}

/// Checks that what the ranks asked for fits together. `joined` ranks have nothing more to give.
pub(crate) fn validate(claims: &[Claim], joined: usize) -> Result<(), Mismatch> {
    let Some((first, others)) = claims.split_first() else {
        return Ok(());
    };
    let check = Check { first, others };
    check.equal("data type", |request| request.dtype)?;
    check.equal("operation", |request| request.kind)?;
    match first.request.kind {
        OpKind::Allreduce | OpKind::Adasum => {
            check.same_shape()?;
            check.same_factors()?;
            check.equal("reduce operation", |request| request.reduce_op)?;
        }
        OpKind::Allgather | OpKind::Alltoall => {
            check.nobody_joined(joined)?;
            check.no_scalar()?;
            check.same_rows()?;
        }
        OpKind::Reducescatter => {
            check.same_shape()?;
            check.same_factors()?;
            check.nobody_joined(joined)?;
            check.no_scalar()?;
        }
        OpKind::Broadcast => {
            check.same_shape()?;
            check.nobody_joined(joined)?;
            check.equal("root rank", |request| request.root)?;
        }
        OpKind::Barrier => check.nobody_joined(joined)?,
        OpKind::Join => {}
    }
    check.same_device()
}

/// The request that arrived first, and the ones compared with it.
struct Check<'a> {
    first: &'a Claim,
    others: &'a [Claim],
}

impl Check<'_> {
    /// Every rank has the same value of one property.
    fn equal<T: PartialEq + fmt::Display>(
        &self,
        what: &str,
        property: impl Fn(&Request) -> T,
    ) -> Result<(), Mismatch> {
        let expected = property(&self.first.request);
        for other in self.others {
            let found = property(&other.request);
            if found != expected {
                return Err(self.disagreement(what, &expected, other, &found));
            }
        }
        Ok(())
    }

    fn same_shape(&self) -> Result<(), Mismatch> {
        self.equal("shape", |request| request.shape.clone())
    }

    /// Factors are compared exactly, as the numbers they are.
    fn same_factors(&self) -> Result<(), Mismatch> {
        self.equal("scaling factors", |request| {
            Factors(request.prescale, request.postscale)
        })
    }

    /// All dimensions but the first are the same.
    fn same_rows(&self) -> Result<(), Mismatch> {
        self.equal("number of dimensions", |request| {
            request.shape.dimensions().len()
        })?;
        for index in 1..self.first.request.shape.dimensions().len() {
            let what = format!("size of dimension {index}");
            self.equal(&what, |request| request.shape.dimensions()[index])?;
        }
        Ok(())
    }

    fn same_device(&self) -> Result<(), Mismatch> {
        self.equal("device", |request| {
            if request.device.is_cpu() {
                "CPU"
            } else {
                "GPU"
            }
        })
    }

    fn no_scalar(&self) -> Result<(), Mismatch> {
        let Request {
            kind, name, shape, ..
        } = &self.first.request;
        if !shape.is_scalar() {
            return Ok(());
        }
        let party = self.first.party.clone();
        Err(Mismatch::Scalar {
            kind: *kind,
            name: Arc::clone(name),
            party,
        })
    }

    fn nobody_joined(&self, joined: usize) -> Result<(), Mismatch> {
        if joined == 0 {
            return Ok(());
        }
        let Request { kind, name, .. } = &self.first.request;
        let hint = match kind {
            OpKind::Allgather => {
                "; if this is a sparse gradient, pass sparse_as_dense=True to the optimizer"
            }
            _ => "",
        };
        Err(Mismatch::Joined {
            kind: *kind,
            name: Arc::clone(name),
            joined,
            hint,
        })
    }

    fn disagreement(
        &self,
        what: &str,
        first_value: &impl fmt::Display,
        other: &Claim,
        other_value: &impl fmt::Display,
    ) -> Mismatch {
        Mismatch::Disagreement(Box::new(Disagreement {
            kind: self.first.request.kind,
            name: Arc::clone(&self.first.request.name),
            what: what.to_owned(),
            first: self.first.party.clone(),
            first_value: first_value.to_string(),
            other: other.party.clone(),
            other_value: other_value.to_string(),
        }))
    }
}

struct Factors(f64, f64);

impl PartialEq for Factors {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits() && self.1.to_bits() == other.1.to_bits()
    }
}

impl fmt::Display for Factors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prescale {} and postscale {}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests;
