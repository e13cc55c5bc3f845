//! What many ranks tell the coordinator by way of one: the announcements of a subtree, in which
//! what several ranks say alike is said once.

use hvd_types::{Device, ProcessSetId, Rank, Ranks};

use crate::decode::Reader;
use crate::encode::{cache_ids, count, halted, list, number, request, set_change};
use crate::message::{CacheId, Halted, Ready, Request, SetChange};
use crate::{Error, Result};

/// What a subtree has to say since its last message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gathered {
    /// In this order.
    pub parts: Vec<Part>,
    /// By process set: which verdict every member in the subtree had read before it said anything
    /// that comes after this message.
    pub seen: Vec<(ProcessSetId, u64)>,
    /// The last verdict on the global set that the sender had passed on: none of those below it can
    /// have read a later one when they said this.
    pub routed: u64,
}

/// What some ranks say alike about one process set: each of them a [`Ready`] of this content.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// The process set all of this is about.
    pub process_set: ProcessSetId,
    /// Who says it; somebody does.
    pub ranks: Ranks,
    /// Tensors that were agreed before and have not changed.
    pub cached: Vec<CacheId>,
    /// Tensors that are new or have changed.
    pub requests: Vec<SharedRequest>,
    /// Process sets these ranks want to see added or removed, in this order.
    pub changes: Vec<SetChange>,
    /// Whether these ranks want the job's engine to shut down.
    pub shutdown: bool,
    /// Said once of a plan: these ranks do not go on with it, and none of them has come less far.
    pub halted: Option<Halted>,
}

/// The request of several ranks for one tensor, with what may differ between them.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedRequest {
    /// What they ask for.
    pub request: Request,
    /// First dimension of each rank, ascending by rank; empty if all have the request's.
    pub first_dimensions: Vec<u64>,
    /// Device of each rank, ascending by rank; empty if all have the request's.
    pub devices: Vec<Device>,
}

impl From<Request> for SharedRequest {
    fn from(request: Request) -> Self {
        Self {
            request,
            first_dimensions: Vec::new(),
            devices: Vec::new(),
        }
    }
}

impl Part {
    /// What a single rank says.
    pub fn of(rank: Rank, ready: Ready) -> Self {
        Self {
            process_set: ready.process_set,
            ranks: Ranks::one(rank),
            cached: ready.cached,
            requests: ready.requests.into_iter().map(Into::into).collect(),
            changes: ready.changes,
            shutdown: ready.shutdown,
            halted: ready.halted,
        }
    }

    /// Whether tensors are asked for.
    pub fn asks(&self) -> bool {
        !self.cached.is_empty() || !self.requests.is_empty()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.process_set.number().to_le_bytes());
        list(out, self.ranks.spans(), |out, (first, end)| {
            out.extend(first.to_le_bytes());
            out.extend(end.to_le_bytes());
        });
        cache_ids(out, &self.cached);
        list(out, &self.requests, |out, shared| {
            request(out, &shared.request);
            list(out, &shared.first_dimensions, |out, &first| {
                number(out, first);
            });
            list(out, &shared.devices, |out, device| {
                out.extend(device.code().to_le_bytes());
            });
        });
        list(out, &self.changes, set_change);
        out.push(u8::from(self.shutdown));
        halted(out, self.halted);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let process_set = reader.process_set()?;
        let spans = reader.list(|reader| {
            let first = u32::from_le_bytes(reader.array()?);
            Ok((first, u32::from_le_bytes(reader.array()?)))
        })?;
        let ranks = Ranks::from_spans(spans).filter(|ranks| !ranks.is_empty());
        let ranks = ranks.ok_or(Error::BadRanks)?;
        let part = Self {
            process_set,
            cached: reader.cache_ids()?,
            requests: reader.list(SharedRequest::decode)?,
            changes: reader.list(Reader::set_change)?,
            shutdown: reader.flag()?,
            halted: reader.halted()?,
            ranks,
        };
        let speakers = part.ranks.len();
        let fits = |length| length == 0 || length == speakers;
        let fitting = part
            .requests
            .iter()
            .all(|shared| fits(shared.first_dimensions.len()) && fits(shared.devices.len()));
        if fitting {
            Ok(part)
        } else {
            Err(Error::BadRanks)
        }
    }
}

impl SharedRequest {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            request: reader.request()?,
            first_dimensions: reader.list(Reader::number)?,
            devices: reader.list(Reader::device)?,
        })
    }
}

impl Gathered {
    /// Appends this message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        count(out, self.parts.len());
        for part in &self.parts {
            part.encode(out);
        }
        list(out, &self.seen, |out, (set, seen)| {
            out.extend(set.number().to_le_bytes());
            number(out, *seen);
        });
        number(out, self.routed);
    }

    /// Reads a message that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let gathered = Self {
            parts: reader.list(Part::decode)?,
            seen: reader.list(|reader| Ok((reader.process_set()?, reader.number()?)))?,
            routed: reader.number()?,
        };
        reader.finish(gathered)
    }
}
