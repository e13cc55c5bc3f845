//! The requests of many ranks, merged by a relay: the request lists of a subtree of the control
//! tree, in which equal requests of several ranks appear once.

use hvd_types::{Device, ProcessSetId, Rank, Ranks};

use crate::decode::Reader;
use crate::encode::{cache_ids, count, halted, list, number, request, set_change};
use crate::message::{CacheId, Request, RequestList, ScheduleHalt, SetChange};
use crate::{Error, Result};

/// The request lists of a subtree since its last message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MergedRequestLists {
    /// In this order.
    pub lists: Vec<SharedRequestList>,
    /// By process set: the response list that every member in the subtree had read before it sent
    /// anything that comes after this message.
    pub seen: Vec<(ProcessSetId, u64)>,
    /// The last response list for the global set that the sender had forwarded: no rank below it
    /// can have read a later one when it sent this.
    pub routed: u64,
}

/// Equal request lists of several ranks for one process set: each of them sent a [`RequestList`]
/// with this content.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SharedRequestList {
    /// The process set of all requests in this list.
    pub process_set: ProcessSetId,
    /// The ranks that sent it; never empty.
    pub ranks: Ranks,
    /// Tensors that were agreed before and have not changed.
    pub cached: Vec<CacheId>,
    /// Tensors that are new or have changed.
    pub requests: Vec<SharedRequest>,
    /// Process sets that these ranks ask to add or remove, in this order.
    pub changes: Vec<SetChange>,
    /// Whether these ranks ask for a shutdown of the engine.
    pub shutdown: bool,
    /// Sent once per schedule, when these ranks stop following it; `next` is their minimum.
    pub halted: Option<ScheduleHalt>,
}

/// The request of several ranks for one tensor, with the fields that may differ between them.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedRequest {
    /// The fields that they have in common.
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

impl SharedRequestList {
    /// The list of a single rank.
    pub fn of(rank: Rank, list: RequestList) -> Self {
        Self {
            process_set: list.process_set,
            ranks: Ranks::one(rank),
            cached: list.cached,
            requests: list.requests.into_iter().map(Into::into).collect(),
            changes: list.changes,
            shutdown: list.shutdown,
            halted: list.halted,
        }
    }

    /// Whether the list requests any tensors.
    pub fn has_requests(&self) -> bool {
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
        let list = Self {
            process_set,
            cached: reader.cache_ids()?,
            requests: reader.list(SharedRequest::decode)?,
            changes: reader.list(Reader::set_change)?,
            shutdown: reader.flag()?,
            halted: reader.halted()?,
            ranks,
        };
        let senders = list.ranks.len();
        let fits = |length| length == 0 || length == senders;
        let fitting = list
            .requests
            .iter()
            .all(|shared| fits(shared.first_dimensions.len()) && fits(shared.devices.len()));
        if fitting {
            Ok(list)
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

impl MergedRequestLists {
    /// Appends this message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        count(out, self.lists.len());
        for list in &self.lists {
            list.encode(out);
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
        let merged = Self {
            lists: reader.list(SharedRequestList::decode)?,
            seen: reader.list(|reader| Ok((reader.process_set()?, reader.number()?)))?,
            routed: reader.number()?,
        };
        reader.finish(merged)
    }
}
