//! Which ranks have asked for a tensor, and how. Ranks that asked in the same way, up to what may
//! differ between ranks, are one group: the negotiation looks at groups, not at ranks.

use hvd_types::{OpKind, Rank, Ranks};
use hvd_wire::{CacheId, Request, SharedRequest};

/// How a tensor was asked for; `A` is what is known about a number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RequestForm<A> {
    /// The number of an earlier agreement.
    Cached(CacheId, A),
    /// A description in full.
    Full(SharedRequest),
}

/// Ranks that asked in the same way.
#[derive(Debug, PartialEq)]
pub(crate) struct RequesterGroup<A> {
    /// The first of them that asked.
    pub(crate) speaker: Rank,
    pub(crate) ranks: Ranks,
    pub(crate) form: RequestForm<A>,
}

/// All ranks that have asked for a tensor; groups in the order in which their first ranks asked.
#[derive(Debug)]
pub(crate) struct Requesters<A>(Vec<RequesterGroup<A>>);

impl<A> Default for Requesters<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A> Requesters<A> {
    /// Takes in what some ranks ask for, none of whom has asked before.
    pub(crate) fn add(&mut self, ranks: &Ranks, form: RequestForm<A>) {
        let Some(speaker) = ranks.first() else {
            return;
        };
        match self.0.iter_mut().find(|group| group.form.is_like(&form)) {
            Some(group) => group.absorb(ranks, form),
            None => self.0.push(RequesterGroup {
                speaker,
                ranks: ranks.clone(),
                form,
            }),
        }
    }

    pub(crate) fn groups(&self) -> &[RequesterGroup<A>] {
        &self.0
    }

    pub(crate) fn into_groups(self) -> Vec<RequesterGroup<A>> {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many have asked.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|group| group.ranks.len()).sum()
    }

    /// How many of these have asked.
    pub(crate) fn common(&self, ranks: &Ranks) -> usize {
        self.0.iter().map(|group| group.ranks.common(ranks)).sum()
    }

    /// One of these that has asked.
    pub(crate) fn first_common(&self, ranks: &Ranks) -> Option<Rank> {
        self.0
            .iter()
            .find_map(|group| group.ranks.first_common(ranks))
    }
}

impl<A> RequestForm<A> {
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cached(mine, _), Self::Cached(other, _)) => mine == other,
            (Self::Full(mine), Self::Full(other)) => alike(&mine.request, &other.request),
            _ => false,
        }
    }
}

impl<A> RequesterGroup<A> {
    fn absorb(&mut self, ranks: &Ranks, form: RequestForm<A>) {
        if let (RequestForm::Full(mine), RequestForm::Full(other)) = (&mut self.form, form) {
            let first = |request: &Request| request.shape.first().unwrap_or(0);
            mine.first_dimensions = merged(
                (&self.ranks, &mine.first_dimensions, first(&mine.request)),
                (ranks, &other.first_dimensions, first(&other.request)),
            );
            mine.devices = merged(
                (&self.ranks, &mine.devices, mine.request.device),
                (ranks, &other.devices, other.request.device),
            );
        }
        self.ranks.insert_all(ranks);
    }
}

/// Whether two requests are the same but for what may differ between ranks that agree. Factors are
/// compared as the numbers they are, like everywhere in the negotiation.
fn alike(a: &Request, b: &Request) -> bool {
    let factors = |request: &Request| (request.prescale.to_bits(), request.postscale.to_bits());
    a.name == b.name
        && a.kind == b.kind
        && a.dtype == b.dtype
        && same_shape(a, b)
        && a.root == b.root
        && a.device.is_cpu() == b.device.is_cpu()
        && a.reduce_op == b.reduce_op
        && factors(a) == factors(b)
        && a.group == b.group
}

fn same_shape(a: &Request, b: &Request) -> bool {
    let (mine, other) = (a.shape.dimensions(), b.shape.dimensions());
    let ragged = matches!(a.kind, OpKind::Allgather | OpKind::Alltoall);
    match (mine, other) {
        ([_, mine @ ..], [_, other @ ..]) if ragged => mine == other,
        _ => mine == other,
    }
}

/// What each rank of two groups has, ascending by rank: a list for each group, or one value for
/// all of it. Empty if all have the same.
fn merged<T: Copy + PartialEq>(a: (&Ranks, &[T], T), b: (&Ranks, &[T], T)) -> Vec<T> {
    if a.1.is_empty() && b.1.is_empty() && a.2 == b.2 {
        return Vec::new();
    }
    let each = |(ranks, list, same): (&Ranks, &[T], T)| -> Vec<(Rank, T)> {
        let value = |(index, rank)| (rank, list.get(index).copied().unwrap_or(same));
        ranks.iter().enumerate().map(value).collect()
    };
    let mut all = each(a);
    all.extend(each(b));
    all.sort_by_key(|&(rank, _)| rank);
    all.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use hvd_types::{DType, Device, ReduceOp, Shape};

    use super::*;

    fn request(kind: OpKind, dimensions: &[u64], device: Device) -> RequestForm<()> {
        let request = Request {
            name: "t".into(),
            kind,
            dtype: DType::Float32,
            shape: Shape::new(dimensions),
            root: Rank::new(0),
            device,
            reduce_op: ReduceOp::Sum,
            prescale: 1.0,
            postscale: 1.0,
            group: None,
        };
        RequestForm::Full(request.into())
    }

    fn ranks(numbers: &[u32]) -> Ranks {
        numbers.iter().copied().map(Rank::new).collect()
    }

    #[test]
    fn ranks_that_ask_alike_are_one_group_and_what_differs_is_kept_by_rank() {
        let mut requesters = Requesters::default();
        let gather = |rows, gpu| request(OpKind::Allgather, &[rows, 4], Device::Gpu(gpu));
        requesters.add(&ranks(&[2, 5]), gather(7, 0));
        requesters.add(&ranks(&[3]), gather(1, 0));
        requesters.add(&ranks(&[0]), gather(7, 1));
        let [group] = requesters.groups() else {
            panic!("{requesters:?}");
        };
        assert_eq!(group.speaker, Rank::new(2));
        assert_eq!(group.ranks, ranks(&[0, 2, 3, 5]));
        let RequestForm::Full(shared) = &group.form else {
            panic!("{group:?}");
        };
        assert_eq!(shared.first_dimensions, [7, 7, 1, 7]);
        let gpus = [1, 0, 0, 0].map(Device::Gpu);
        assert_eq!(shared.devices, gpus);
        assert_eq!(requesters.len(), 4);
        assert_eq!(requesters.common(&ranks(&[1, 2, 3])), 2);
        assert_eq!(requesters.first_common(&ranks(&[4, 5])), Some(Rank::new(5)));
    }

    #[test]
    fn what_has_to_agree_makes_groups() {
        let mut requesters = Requesters::default();
        requesters.add(&ranks(&[0]), request(OpKind::Allreduce, &[4], Device::Cpu));
        requesters.add(&ranks(&[1]), request(OpKind::Allreduce, &[5], Device::Cpu));
        requesters.add(
            &ranks(&[2]),
            request(OpKind::Allreduce, &[4], Device::Gpu(0)),
        );
        requesters.add(&ranks(&[3]), RequestForm::Cached(CacheId(1), ()));
        requesters.add(&ranks(&[4]), RequestForm::Cached(CacheId(2), ()));
        assert_eq!(requesters.groups().len(), 5);
        requesters.add(&ranks(&[5]), RequestForm::Cached(CacheId(1), ()));
        requesters.add(&ranks(&[6]), request(OpKind::Allreduce, &[4], Device::Cpu));
        assert_eq!(requesters.groups().len(), 5);
        assert_eq!(requesters.groups()[0].ranks, ranks(&[0, 6]));
    }

    #[test]
    fn a_negative_zero_is_another_factor() {
        let with = |prescale| {
            let RequestForm::Full(mut shared) = request(OpKind::Allreduce, &[1], Device::Cpu)
            else {
                panic!("a request");
            };
            shared.request.prescale = prescale;
            RequestForm::<()>::Full(shared)
        };
        assert!(!with(0.0).is_like(&with(-0.0)));
        assert!(with(f64::NAN).is_like(&with(f64::NAN)));
    }
}
