//! Which allreduce suits a number of members and of bytes.
//!
//! Either a length is given up to which few steps are better, or it is worked out from what the
//! network costs. With n members, p the largest power of two not above n, and a message of b bytes
//! taking `latency + b * per_byte`:
//!
//! ```text
//! recursive doubling   log2(p) * (latency + S * (per_byte + REDUCE))
//! halving-doubling     2 log2(p) * latency + (p - 1) / p * S * (2 per_byte + REDUCE)
//! ring                 2 (n - 1) * latency + (n - 1) / n * S * 2 per_byte
//! folding, if p < n    2 latency + S * (2 per_byte + REDUCE), for the first two
//! ```
//!
//! A ring reduces while more arrives; the others do it between messages.

/// Seconds to reduce a byte that has arrived: two reads and a write at the speed of memory.
const REDUCE: f64 = 0.25e-9;

/// What a message between members costs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// However short it is.
    pub latency: f64,
    /// For each byte.
    pub per_byte: f64,
}

/// A way to reduce where members have no common memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// [`crate::recursive_doubling_allreduce`].
    RecursiveDoubling,
    /// [`crate::halving_doubling_allreduce`].
    HalvingDoubling,
    /// [`crate::ring_allreduce`].
    Ring,
}

impl Algorithm {
    const ALL: [Self; 3] = [Self::RecursiveDoubling, Self::HalvingDoubling, Self::Ring];

    /// What reducing so many bytes over so many members costs, in seconds.
    pub fn time(self, cost: Cost, members: usize, bytes: usize) -> f64 {
        let Cost { latency, per_byte } = cost;
        let (members, bytes) = (as_float(members.max(1)), as_float(bytes));
        let rounds = members.log2().floor();
        let remaining = rounds.exp2();
        let folding = if remaining < members {
            2.0 * latency + bytes * (2.0 * per_byte + REDUCE)
        } else {
            0.0
        };
        match self {
            Self::RecursiveDoubling => folding + rounds * (latency + bytes * (per_byte + REDUCE)),
            Self::HalvingDoubling => {
                let share = (remaining - 1.0) / remaining;
                folding + 2.0 * rounds * latency + share * bytes * (2.0 * per_byte + REDUCE)
            }
            Self::Ring => {
                let steps = members - 1.0;
                2.0 * steps * latency + steps / members * bytes * 2.0 * per_byte
            }
        }
    }

    /// The one that takes least, by what messages cost; the first of those that take the same.
    pub fn cheapest(cost: Cost, members: usize, bytes: usize) -> Self {
        let time = |algorithm: Self| algorithm.time(cost, members, bytes);
        let mut best = Self::RecursiveDoubling;
        for algorithm in Self::ALL {
            if time(algorithm) < time(best) {
                best = algorithm;
            }
        }
        best
    }
}

/// Sizes far below those at which a double is not exact.
#[expect(
    clippy::cast_precision_loss,
    reason = "an estimate needs no last digits"
)]
fn as_float(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One Gbit/s with a tenth of a millisecond each way, and the loopback interface.
    const GIGABIT: Cost = Cost {
        latency: 180e-6,
        per_byte: 8.4e-9,
    };
    const LOOPBACK: Cost = Cost {
        latency: 15e-6,
        per_byte: 0.4e-9,
    };

    #[test]
    fn short_buffers_take_few_steps_and_long_ones_few_bytes() {
        let chosen = |cost, members, bytes| Algorithm::cheapest(cost, members, bytes);
        for cost in [GIGABIT, LOOPBACK] {
            assert_eq!(chosen(cost, 4, 4), Algorithm::RecursiveDoubling);
            assert_eq!(chosen(cost, 3, 1 << 26), Algorithm::Ring);
        }
        assert_eq!(chosen(GIGABIT, 16, 1 << 17), Algorithm::HalvingDoubling);
        assert_eq!(chosen(LOOPBACK, 4, 1 << 26), Algorithm::Ring);
    }

    #[test]
    fn a_slow_start_makes_few_steps_worth_more() {
        // The same bytes, over a link that is as fast but farther away.
        let far = Cost {
            latency: 5e-3,
            ..GIGABIT
        };
        let chosen = |cost| Algorithm::cheapest(cost, 8, 1 << 20);
        assert_eq!(chosen(GIGABIT), Algorithm::HalvingDoubling);
        assert_eq!(chosen(far), Algorithm::RecursiveDoubling);
    }

    proptest! {
        #[test]
        fn no_other_takes_less(
            latency in 1e-7..1e-2_f64, per_byte in 1e-11..1e-6_f64,
            members in 1..2000_usize, bytes in 0..1_usize << 32,
        ) {
            let cost = Cost { latency, per_byte };
            let best = Algorithm::cheapest(cost, members, bytes).time(cost, members, bytes);
            for algorithm in Algorithm::ALL {
                prop_assert!(best <= algorithm.time(cost, members, bytes));
            }
        }
    }
}
