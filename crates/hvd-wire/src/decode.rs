//! Bytes to messages. Nothing is believed: every count is compared with the bytes that are left
//! before a list is made, every code is looked up, and a message must end where its bytes end.

use std::sync::Arc;

use hvd_types::{DType, Device, OpKind, ProcessSetId, Rank, ReduceOp, Shape, UnknownCode};

use crate::message::{
    CacheId, MessageKind, Operation, ReadyNotice, Request, RequestList, Response, ResponseList,
    Schedule, ScheduleCommand, ScheduleHalt, SetChange, SetChangeResult, TensorRef, TensorSpec,
    Tuned,
};
use crate::{Error, Result};

impl RequestList {
    /// Reads a message that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let ready = Self {
            process_set: reader.process_set()?,
            seen: reader.number()?,
            cached: reader.cache_ids()?,
            requests: reader.list(Reader::request)?,
            changes: reader.list(Reader::set_change)?,
            shutdown: reader.flag()?,
            halted: reader.halted()?,
        };
        reader.finish(ready)
    }
}

impl MessageKind {
    /// Takes the kind off a control message and returns the message itself.
    pub fn split(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let mut reader = Reader(bytes);
        let kind = match reader.byte()? {
            0 => Self::Negotiation,
            1 => Self::ReadyNotice,
            other => return Err(unknown("kind of control message", other)),
        };
        Ok((kind, reader.0))
    }
}

impl ReadyNotice {
    /// Reads a message that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        Ok(Self {
            schedule: reader.number()?,
            operation: reader.number()?,
            tensors: reader.0.to_vec(),
        })
    }
}

impl ResponseList {
    /// Reads a message that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let message = Self {
            process_set: reader.process_set()?,
            sequence: reader.number()?,
            evicted: reader.cache_ids()?,
            tuned: reader.flag()?.then(|| reader.tuned()).transpose()?,
            responses: reader.list(Reader::response)?,
            schedule: reader
                .flag()?
                .then(|| reader.schedule_command())
                .transpose()?,
            changes: reader.list(Reader::set_change_result)?,
            shutdown: reader.flag()?.then(|| reader.rank()).transpose()?,
        };
        reader.finish(message)
    }
}

/// The bytes of a message that have not been read yet.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn finish<T>(self, message: T) -> Result<T> {
        if self.0.is_empty() {
            Ok(message)
        } else {
            Err(Error::Trailing { left: self.0.len() })
        }
    }

    pub(crate) fn request(&mut self) -> Result<Request> {
        Ok(Request {
            name: self.text()?.into(),
            kind: self.kind()?,
            dtype: self.dtype()?,
            shape: self.shape()?,
            root: self.rank()?,
            device: self.device()?,
            reduce_op: self.reduce_op()?,
            prescale: self.factor()?,
            postscale: self.factor()?,
            group: self
                .flag()?
                .then(|| self.text())
                .transpose()?
                .map(Arc::from),
        })
    }

    pub(crate) fn set_change(&mut self) -> Result<SetChange> {
        match self.byte()? {
            0 => Ok(SetChange::Add(self.list(Self::rank)?)),
            1 => Ok(SetChange::Remove(self.process_set()?)),
            other => Err(unknown("change of process sets", other)),
        }
    }

    fn set_change_result(&mut self) -> Result<SetChangeResult> {
        match self.byte()? {
            0 => Ok(SetChangeResult::Added {
                id: self.process_set()?,
                ranks: self.list(Self::rank)?,
            }),
            1 => Ok(SetChangeResult::Removed(self.process_set()?)),
            2 => Ok(SetChangeResult::Refused(self.text()?.to_owned())),
            other => Err(unknown("result of a process set change", other)),
        }
    }

    pub(crate) fn halted(&mut self) -> Result<Option<ScheduleHalt>> {
        if !self.flag()? {
            return Ok(None);
        }
        Ok(Some(ScheduleHalt {
            schedule: self.number()?,
            next: self.number()?,
        }))
    }

    fn schedule_command(&mut self) -> Result<ScheduleCommand> {
        match self.byte()? {
            0 => Ok(ScheduleCommand::Begin(Schedule {
                number: self.number()?,
                operations: self.list(Self::operation)?,
            })),
            1 => Ok(ScheduleCommand::Halt(self.number()?)),
            2 => Ok(ScheduleCommand::End {
                number: self.number()?,
                next: self.number()?,
            }),
            other => Err(unknown("schedule command", other)),
        }
    }

    fn tuned(&mut self) -> Result<Tuned> {
        Ok(Tuned {
            chunk_bytes: self.size(1)?,
            small_allreduce_bytes: self.size(0)?,
            hierarchical_allreduce: self.flag()?,
            hierarchical_allgather: self.flag()?,
        })
    }

    /// A size in bytes, not smaller than `least`.
    fn size(&mut self, least: u64) -> Result<u64> {
        let (size, most) = (self.number()?, Tuned::LIMIT);
        if (least..=most).contains(&size) {
            return Ok(size);
        }
        Err(Error::SizeOutOfRange { size, least, most })
    }

    fn response(&mut self) -> Result<Response> {
        match self.byte()? {
            0 => Ok(Response::Execute(self.operation()?)),
            1 => Ok(Response::Refuse {
                name: self.text()?.into(),
                reason: self.text()?.to_owned(),
            }),
            2 => Ok(Response::Joined { last: self.rank()? }),
            other => Err(unknown("response", other)),
        }
    }

    fn operation(&mut self) -> Result<Operation> {
        Ok(Operation {
            kind: self.kind()?,
            dtype: self.dtype()?,
            reduce_op: self.reduce_op()?,
            prescale: self.factor()?,
            postscale: self.factor()?,
            root: self.rank()?,
            divisor: u32::from_le_bytes(self.array()?),
            tensors: self.list(Self::tensor_ref)?,
        })
    }

    fn tensor_ref(&mut self) -> Result<TensorRef> {
        match self.byte()? {
            0 => Ok(TensorRef::Cached(CacheId(self.number()?))),
            1 => Ok(TensorRef::New(self.tensor_spec()?)),
            other => Err(unknown("tensor reference", other)),
        }
    }

    fn tensor_spec(&mut self) -> Result<TensorSpec> {
        Ok(TensorSpec {
            name: Arc::from(self.text()?),
            cache: Some(self.number()?).filter(|&id| id != 0).map(CacheId),
            shape: self.shape()?,
            first_dimensions: self.list(Self::number)?,
        })
    }

    pub(crate) fn cache_ids(&mut self) -> Result<Vec<CacheId>> {
        self.list(|reader| reader.number().map(CacheId))
    }

    pub(crate) fn kind(&mut self) -> Result<OpKind> {
        Ok(OpKind::try_from(self.byte()?)?)
    }

    fn dtype(&mut self) -> Result<DType> {
        Ok(DType::try_from(self.byte()?)?)
    }

    fn reduce_op(&mut self) -> Result<ReduceOp> {
        Ok(ReduceOp::try_from(self.byte()?)?)
    }

    pub(crate) fn rank(&mut self) -> Result<Rank> {
        Ok(Rank::new(u32::from_le_bytes(self.array()?)))
    }

    pub(crate) fn process_set(&mut self) -> Result<ProcessSetId> {
        Ok(ProcessSetId::new(u32::from_le_bytes(self.array()?)))
    }

    pub(crate) fn device(&mut self) -> Result<Device> {
        let code = i32::from_le_bytes(self.array()?);
        let unknown = UnknownCode {
            what: "device",
            value: i64::from(code),
        };
        Ok(Device::from_code(code).ok_or(unknown)?)
    }

    fn shape(&mut self) -> Result<Shape> {
        Ok(Shape::new(self.list(Self::number)?))
    }

    fn factor(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(unknown("flag", other)),
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Error::NotUtf8)
    }

    /// A list. Its claimed length only reserves memory for as many items as there are bytes left,
    /// since every item takes at least one.
    pub(crate) fn list<T>(&mut self, each: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.count()?;
        if count > self.0.len() {
            return Err(Error::Truncated {
                needed: count,
                left: self.0.len(),
            });
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(each(self)?);
        }
        Ok(items)
    }

    fn count(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let truncated = Error::Truncated {
            needed: length,
            left: self.0.len(),
        };
        let (taken, rest) = self.0.split_at_checked(length).ok_or(truncated)?;
        self.0 = rest;
        Ok(taken)
    }
}

pub(crate) fn unknown(what: &'static str, value: u8) -> Error {
    Error::UnknownCode(UnknownCode {
        what,
        value: i64::from(value),
    })
}
