//! Messages to bytes. Field by field in the order of the types' definitions; the reverse is
//! `decode.rs`, and a property test keeps the two in step.

use hvd_types::{OpKind, Rank, Shape};

use crate::message::{
    CacheId, Operation, ReadyNotice, Request, RequestList, Response, ResponseList, ScheduleCommand,
    ScheduleHalt, SetChange, SetChangeResult, TensorRef, TensorSpec, Tuned,
};

impl RequestList {
    /// Appends this message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.process_set.number().to_le_bytes());
        number(out, self.seen);
        cache_ids(out, &self.cached);
        list(out, &self.requests, request);
        list(out, &self.changes, set_change);
        out.push(u8::from(self.shutdown));
        halted(out, self.halted);
    }
}

impl ReadyNotice {
    /// Appends this message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        number(out, self.schedule);
        number(out, self.operation);
        out.extend_from_slice(&self.tensors);
    }
}

impl ResponseList {
    /// Appends this message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.process_set.number().to_le_bytes());
        number(out, self.sequence);
        cache_ids(out, &self.evicted);
        out.push(u8::from(self.tuned.is_some()));
        if let Some(tuned) = &self.tuned {
            self::tuned(out, tuned);
        }
        list(out, &self.responses, response);
        out.push(u8::from(self.schedule.is_some()));
        if let Some(command) = &self.schedule {
            schedule_command(out, command);
        }
        list(out, &self.changes, set_change_result);
        out.push(u8::from(self.shutdown.is_some()));
        if let Some(rank) = self.shutdown {
            self::rank(out, rank);
        }
    }
}

pub(crate) fn halted(out: &mut Vec<u8>, halted: Option<ScheduleHalt>) {
    out.push(u8::from(halted.is_some()));
    if let Some(halted) = halted {
        number(out, halted.schedule);
        number(out, halted.next);
    }
}

pub(crate) fn request(out: &mut Vec<u8>, request: &Request) {
    text(out, &request.name);
    out.extend([request.kind as u8, request.dtype as u8]);
    shape(out, &request.shape);
    rank(out, request.root);
    out.extend(request.device.code().to_le_bytes());
    out.push(request.reduce_op as u8);
    factors(out, request.prescale, request.postscale);
    out.push(u8::from(request.group.is_some()));
    if let Some(group) = &request.group {
        text(out, group);
    }
}

pub(crate) fn set_change(out: &mut Vec<u8>, change: &SetChange) {
    match change {
        SetChange::Add(ranks) => {
            out.push(0);
            list(out, ranks, |out, &member| rank(out, member));
        }
        SetChange::Remove(id) => {
            out.push(1);
            out.extend(id.number().to_le_bytes());
        }
    }
}

fn set_change_result(out: &mut Vec<u8>, result: &SetChangeResult) {
    match result {
        SetChangeResult::Added { id, ranks } => {
            out.push(0);
            out.extend(id.number().to_le_bytes());
            list(out, ranks, |out, &member| rank(out, member));
        }
        SetChangeResult::Removed(id) => {
            out.push(1);
            out.extend(id.number().to_le_bytes());
        }
        SetChangeResult::Refused(reason) => {
            out.push(2);
            text(out, reason);
        }
    }
}

fn schedule_command(out: &mut Vec<u8>, command: &ScheduleCommand) {
    match command {
        ScheduleCommand::Begin(schedule) => {
            out.push(0);
            number(out, schedule.number);
            list(out, &schedule.operations, operation);
        }
        ScheduleCommand::Halt(schedule) => {
            out.push(1);
            number(out, *schedule);
        }
        ScheduleCommand::End {
            number: schedule,
            next,
        } => {
            out.push(2);
            number(out, *schedule);
            number(out, *next);
        }
    }
}

fn tuned(out: &mut Vec<u8>, tuned: &Tuned) {
    number(out, tuned.chunk_bytes);
    number(out, tuned.small_allreduce_bytes);
    out.push(u8::from(tuned.hierarchical_allreduce));
    out.push(u8::from(tuned.hierarchical_allgather));
}

fn response(out: &mut Vec<u8>, response: &Response) {
    match response {
        Response::Execute(operation) => {
            out.push(0);
            self::operation(out, operation);
        }
        Response::Refuse { name, reason } => {
            out.push(1);
            text(out, name);
            text(out, reason);
        }
        Response::Joined { last } => {
            out.push(2);
            rank(out, *last);
        }
    }
}

fn operation(out: &mut Vec<u8>, operation: &Operation) {
    let kind: OpKind = operation.kind;
    out.extend([kind as u8, operation.dtype as u8, operation.reduce_op as u8]);
    factors(out, operation.prescale, operation.postscale);
    rank(out, operation.root);
    out.extend(operation.divisor.to_le_bytes());
    list(out, &operation.tensors, tensor_ref);
}

fn tensor_ref(out: &mut Vec<u8>, tensor: &TensorRef) {
    match tensor {
        TensorRef::Cached(id) => {
            out.push(0);
            number(out, id.0);
        }
        TensorRef::New(spec) => {
            out.push(1);
            tensor_spec(out, spec);
        }
    }
}

fn tensor_spec(out: &mut Vec<u8>, spec: &TensorSpec) {
    text(out, &spec.name);
    // Numbers start at 1, so 0 is free to mean "not remembered".
    number(out, spec.cache.map_or(0, |id| id.0));
    shape(out, &spec.shape);
    list(out, &spec.first_dimensions, |out, &dimension| {
        number(out, dimension);
    });
}

pub(crate) fn cache_ids(out: &mut Vec<u8>, ids: &[CacheId]) {
    list(out, ids, |out, id| number(out, id.0));
}

fn shape(out: &mut Vec<u8>, shape: &Shape) {
    list(out, shape.dimensions(), |out, &dimension| {
        number(out, dimension);
    });
}

fn factors(out: &mut Vec<u8>, prescale: f64, postscale: f64) {
    out.extend(prescale.to_le_bytes());
    out.extend(postscale.to_le_bytes());
}

pub(crate) fn rank(out: &mut Vec<u8>, rank: Rank) {
    out.extend(rank.number().to_le_bytes());
}

pub(crate) fn number(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes());
}

pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    count(out, text.len());
    out.extend(text.as_bytes());
}

pub(crate) fn list<T>(out: &mut Vec<u8>, items: &[T], each: impl Fn(&mut Vec<u8>, &T)) {
    count(out, items.len());
    for item in items {
        each(out, item);
    }
}

/// A count; one that does not fit 32 bits could not be sent anyway (a frame is far smaller), and
/// the receiver refuses the message.
pub(crate) fn count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}
