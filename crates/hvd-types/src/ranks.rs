//! A set of ranks as a list of spans: whole hosts and subtrees of a job take a few bytes.

use crate::Rank;

/// A set of ranks.
///
/// Held as spans `[first, end)`, ascending, with gaps between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ranks {
    spans: Vec<(u32, u32)>,
}

impl Ranks {
    /// The set of one rank.
    pub fn one(rank: Rank) -> Self {
        let number = rank.number();
        Self {
            spans: vec![(number, number.saturating_add(1))],
        }
    }

    /// A set from spans `[first, end)`; `None` unless they ascend with gaps between them.
    pub fn from_spans(spans: Vec<(u32, u32)>) -> Option<Self> {
        let filled = spans.iter().all(|(first, end)| first < end);
        let apart = spans.windows(2).all(|pair| pair[0].1 < pair[1].0);
        (filled && apart).then_some(Self { spans })
    }

    /// The spans `[first, end)`, ascending.
    pub fn spans(&self) -> &[(u32, u32)] {
        &self.spans
    }

    /// How many ranks there are.
    pub fn len(&self) -> usize {
        self.spans
            .iter()
            .map(|(first, end)| (end - first) as usize)
            .sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The lowest.
    pub fn first(&self) -> Option<Rank> {
        self.spans.first().map(|&(first, _)| Rank::new(first))
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Rank> + '_ {
        self.spans
            .iter()
            .flat_map(|&(first, end)| (first..end).map(Rank::new))
    }

    /// Whether a rank is in the set.
    pub fn contains(&self, rank: Rank) -> bool {
        let number = rank.number();
        let after = self.spans.partition_point(|&(_, end)| end <= number);
        self.spans
            .get(after)
            .is_some_and(|&(first, _)| first <= number)
    }

    /// How many ranks both sets have.
    pub fn common(&self, other: &Self) -> usize {
        self.overlaps(other)
            .map(|(first, end)| (end - first) as usize)
            .sum()
    }

    /// The lowest rank that both sets have.
    pub fn first_common(&self, other: &Self) -> Option<Rank> {
        self.overlaps(other)
            .next()
            .map(|(first, _)| Rank::new(first))
    }

    /// Adds a rank.
    pub fn insert(&mut self, rank: Rank) {
        let number = rank.number();
        self.insert_span(number, number.saturating_add(1));
    }

    /// Adds all ranks of another set.
    pub fn insert_all(&mut self, other: &Self) {
        for &(first, end) in &other.spans {
            self.insert_span(first, end);
        }
    }

    /// Adds `[first, end)`, which is not empty; what it touches grows together.
    fn insert_span(&mut self, first: u32, end: u32) {
        let start = self.spans.partition_point(|&(_, other)| other < first);
        let stop = self.spans.partition_point(|&(other, _)| other <= end);
        let Some((&(left, _), &(_, right))) = self
            .spans
            .get(start..stop)
            .and_then(|touched| touched.first().zip(touched.last()))
        else {
            self.spans.insert(start, (first, end));
            return;
        };
        self.spans[start] = (left.min(first), right.max(end));
        self.spans.drain(start + 1..stop);
    }

    /// The spans that both sets have. The shorter list is walked, the longer one searched.
    fn overlaps<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let (few, many) = if self.spans.len() <= other.spans.len() {
            (&self.spans, &other.spans)
        } else {
            (&other.spans, &self.spans)
        };
        few.iter().flat_map(move |&(first, end)| {
            let start = many.partition_point(|&(_, other)| other <= first);
            many[start..]
                .iter()
                .take_while(move |&&(other, _)| other < end)
                .map(move |&(left, right)| (left.max(first), right.min(end)))
        })
    }
}

impl FromIterator<Rank> for Ranks {
    fn from_iter<T: IntoIterator<Item = Rank>>(ranks: T) -> Self {
        let mut set = Self::default();
        for rank in ranks {
            set.insert(rank);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(numbers: &BTreeSet<u32>) -> Ranks {
        numbers.iter().copied().map(Rank::new).collect()
    }

    fn numbers() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(0_u32..40, 0..30)
    }

    #[test]
    fn neighbours_share_a_span() {
        let ranks: Ranks = [3, 5, 4, 9].into_iter().map(Rank::new).collect();
        assert_eq!(ranks.spans(), [(3, 6), (9, 10)]);
    }

    #[test]
    fn spans_out_of_order_are_refused() {
        assert_eq!(Ranks::from_spans(vec![(1, 1)]), None);
        assert_eq!(Ranks::from_spans(vec![(1, 2), (2, 3)]), None);
        assert_eq!(Ranks::from_spans(vec![(4, 5), (1, 2)]), None);
        assert!(Ranks::from_spans(vec![(1, 2), (3, 5)]).is_some());
    }

    proptest! {
        #[test]
        fn it_is_a_set(a in numbers(), b in numbers()) {
            let (mut left, right) = (set(&a), set(&b));
            let common: Vec<u32> = a.intersection(&b).copied().collect();
            prop_assert_eq!(left.common(&right), common.len());
            prop_assert_eq!(left.first_common(&right), common.first().copied().map(Rank::new));
            for number in 0..41 {
                prop_assert_eq!(left.contains(Rank::new(number)), a.contains(&number));
            }
            left.insert_all(&right);
            let union: BTreeSet<u32> = a.union(&b).copied().collect();
            prop_assert_eq!(left.len(), union.len());
            prop_assert!(left.iter().map(Rank::number).eq(union.iter().copied()));
            prop_assert_eq!(left.first().map(Rank::number), union.first().copied());
            let spans = left.spans().to_vec();
            prop_assert_eq!(Ranks::from_spans(spans), Some(left));
        }
    }
}
