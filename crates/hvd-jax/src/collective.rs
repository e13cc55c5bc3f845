//! Collectives as compiled programs call them: arrays and a token in, arrays and the token out.
//!
//! The token carries nothing. It makes XLA keep the order of the calls of a program, which every
//! rank must have in common.

use hvd_engine::{OperationOutput, Submission, current_worker};
use hvd_types::{OpKind, ProcessSetId, Rank, ReduceOp};

use crate::error::{Error, Result};
use crate::ffi::{ArrayBuffer, Call};
use crate::pending;

/// Starts the collective that a call asks for. On return it is over, or the call has a future.
pub(crate) fn start(call: &mut Call<'_>) -> Result<()> {
    let worker = current_worker()?;
    let kind = kind(call.number("kind")?)?;
    let (sources, targets) = arrays(call)?;
    let submissions = sources
        .iter()
        .zip(&targets)
        .map(|(source, target)| submission(call, kind, source, target))
        .collect::<Result<Vec<_>>>()?;
    let check = move |outputs: &[OperationOutput]| {
        let mut unfit = targets.iter().zip(outputs);
        unfit.try_for_each(|(target, output)| fits(kind, target, output))
    };
    let name = call.text("name")?.into();
    pending::run(call, worker.engine(), &name, submissions, check)
}

/// The arrays of a call and the places of its results, without the token.
fn arrays(call: &Call<'_>) -> Result<(Vec<ArrayBuffer>, Vec<ArrayBuffer>)> {
    let (mut sources, mut targets) = (call.arguments()?, call.results()?);
    if sources.pop().is_none() || targets.pop().is_none() || sources.len() != targets.len() {
        return Err(Error::Argument(
            "arrays and results do not match".to_owned(),
        ));
    }
    Ok((sources, targets))
}

fn kind(number: i64) -> Result<OpKind> {
    let kind = u8::try_from(number).ok().map(OpKind::try_from);
    kind.and_then(std::result::Result::ok)
        .ok_or_else(|| Error::Argument(format!("{number} is no operation")))
}

fn submission(
    call: &Call<'_>,
    kind: OpKind,
    source: &ArrayBuffer,
    target: &ArrayBuffer,
) -> Result<Submission> {
    let shape = source.shape.clone();
    let mut submission = Submission::new(kind, source.dtype, shape, source.source());
    let id = call.number("process_set")?;
    let unknown = |_| Error::Argument(format!("process set {id} does not exist"));
    submission.process_set = ProcessSetId::new(u32::try_from(id).map_err(unknown)?);
    match kind {
        OpKind::Allreduce | OpKind::Broadcast if source.bytes == target.bytes => {
            submission.target = target.target();
        }
        _ => submission.target = target.target_if_it_fits(),
    }
    match kind {
        OpKind::Allreduce | OpKind::Reducescatter => reduce(call, submission),
        OpKind::Broadcast => {
            let root = call.number("root")?;
            let unknown = |_| Error::Argument(format!("there is no rank {root}"));
            submission.root = Rank::new(u32::try_from(root).map_err(unknown)?);
            Ok(submission)
        }
        _ => Ok(submission),
    }
}

fn reduce(call: &Call<'_>, submission: Submission) -> Result<Submission> {
    let number = call.number("op")?;
    let op = u8::try_from(number).ok().map(ReduceOp::try_from);
    let unknown = || Error::Argument(format!("{number} is not a reduction"));
    Ok(Submission {
        reduce_op: op.and_then(std::result::Result::ok).ok_or_else(unknown)?,
        prescale: call.fraction("prescale")?,
        postscale: call.fraction("postscale")?,
        ..submission
    })
}

/// Whether a result went to its place.
fn fits(kind: OpKind, target: &ArrayBuffer, output: &OperationOutput) -> Result<()> {
    output.output.as_ref().map_or(Ok(()), |kept| {
        Err(Error::OtherRows {
            kind,
            expected: target.bytes,
            got: kept.as_slice().len(),
        })
    })
}
