//! What is tuned, within which bounds, and how values map to the unit cube that the search works
//! in.
//!
//! - `SPACE-1` no coordinate leads out of the bounds.
//! - `SPACE-2` what is fixed stays as it was at the start.
//!
//! Sizes are spread evenly over their powers of two, times over their cubic roots, so that half of
//! the cube is not spent on values that differ by a few per cent. The bounds contain the ordinary
//! defaults, with which the search begins.

use std::time::Duration;

use crate::execute::team::Hierarchy;

/// A number that can be tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Largest fused operation: nothing, or 32 KiB to 128 MiB.
    FusionThreshold,
    /// Least time between two rounds of negotiation: 0 to 25 ms.
    CycleTime,
    /// Bytes that travel before the receiver starts to work on them: 16 KiB to 4 MiB.
    ChunkBytes,
    /// Largest allreduce that is done in few steps: 1 KiB to 1 MiB.
    SmallAllreduceBytes,
}

/// A switch that can be tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Whether allreduce goes by way of hosts.
    HierarchicalAllreduce,
    /// Whether allgather goes by way of hosts.
    HierarchicalAllgather,
    /// Whether negotiations are remembered.
    Cache,
}

/// One value for each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) fusion_threshold: u64,
    pub(crate) cycle_time: Duration,
    pub(crate) chunk_bytes: u64,
    pub(crate) small_allreduce_bytes: u64,
    pub(crate) hierarchy: Hierarchy,
    pub(crate) cache: bool,
}

/// Longest cycle time, in milliseconds.
const LONGEST_CYCLE: f64 = 25.0;

/// The part of the fusion threshold's side of the cube that stands for no fusion.
const NO_FUSION: f64 = 0.05;

/// The powers of two between which a size lies.
#[derive(Clone, Copy)]
struct Octaves {
    low: f64,
    high: f64,
}

const FUSION: Octaves = Octaves {
    low: 15.0,
    high: 27.0,
};
const CHUNK: Octaves = Octaves {
    low: 14.0,
    high: 22.0,
};
const SMALL: Octaves = Octaves {
    low: 10.0,
    high: 20.0,
};

impl Octaves {
    /// The size at a coordinate, in whole multiples of the least.
    fn size(self, coordinate: f64) -> u64 {
        let bytes = (self.low + coordinate * (self.high - self.low)).exp2();
        let least = self.low.exp2();
        whole((bytes / least).round() * least)
    }

    fn coordinate(self, size: u64) -> f64 {
        let octave = float(size.max(1)).log2();
        ((octave - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

impl Dimension {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::FusionThreshold,
        Self::CycleTime,
        Self::ChunkBytes,
        Self::SmallAllreduceBytes,
    ];

    /// Where a value lies between its bounds, from 0 to 1.
    fn coordinate(self, parameters: &Parameters) -> f64 {
        match self {
            Self::FusionThreshold if parameters.fusion_threshold == 0 => 0.0,
            Self::FusionThreshold => {
                let among_sizes = FUSION.coordinate(parameters.fusion_threshold);
                NO_FUSION + among_sizes * (1.0 - NO_FUSION)
            }
            Self::CycleTime => {
                let milliseconds = parameters.cycle_time.as_secs_f64() * 1000.0;
                (milliseconds / LONGEST_CYCLE).cbrt().clamp(0.0, 1.0)
            }
            Self::ChunkBytes => CHUNK.coordinate(parameters.chunk_bytes),
            Self::SmallAllreduceBytes => SMALL.coordinate(parameters.small_allreduce_bytes),
        }
    }

    fn set(self, parameters: &mut Parameters, coordinate: f64) {
        let coordinate = if coordinate.is_nan() {
            0.0
        } else {
            coordinate.clamp(0.0, 1.0)
        };
        match self {
            Self::FusionThreshold if coordinate < NO_FUSION => parameters.fusion_threshold = 0,
            Self::FusionThreshold => {
                let among_sizes = (coordinate - NO_FUSION) / (1.0 - NO_FUSION);
                parameters.fusion_threshold = FUSION.size(among_sizes);
            }
            Self::CycleTime => {
                let microseconds = whole(LONGEST_CYCLE * 1000.0 * coordinate.powi(3));
                parameters.cycle_time = Duration::from_micros(microseconds);
            }
            Self::ChunkBytes => parameters.chunk_bytes = CHUNK.size(coordinate),
            Self::SmallAllreduceBytes => parameters.small_allreduce_bytes = SMALL.size(coordinate),
        }
    }
}

impl Choice {
    /// All of them, in the order in which they are tuned.
    pub const ALL: [Self; 3] = [
        Self::HierarchicalAllreduce,
        Self::HierarchicalAllgather,
        Self::Cache,
    ];

    pub(super) fn read(self, parameters: &Parameters) -> bool {
        match self {
            Self::HierarchicalAllreduce => parameters.hierarchy.allreduce,
            Self::HierarchicalAllgather => parameters.hierarchy.allgather,
            Self::Cache => parameters.cache,
        }
    }

    /// The same parameters with the other choice.
    pub(super) fn flip(self, mut parameters: Parameters) -> Parameters {
        let flag = match self {
            Self::HierarchicalAllreduce => &mut parameters.hierarchy.allreduce,
            Self::HierarchicalAllgather => &mut parameters.hierarchy.allgather,
            Self::Cache => &mut parameters.cache,
        };
        *flag = !*flag;
        parameters
    }
}

/// The parameters that may be reached from a start, as a unit cube of those that are not fixed.
#[derive(Debug)]
pub(super) struct SearchSpace {
    start: Parameters,
    dimensions: Vec<Dimension>,
}

impl SearchSpace {
    pub(super) fn new(start: Parameters, fixed: &[Dimension]) -> Self {
        let mut dimensions = Dimension::ALL.to_vec();
        dimensions.retain(|dimension| !fixed.contains(dimension));
        Self { start, dimensions }
    }

    /// The start, brought within the bounds.
    pub(super) fn start(&self) -> Vec<f64> {
        let coordinate = |dimension: &Dimension| dimension.coordinate(&self.start);
        self.dimensions.iter().map(coordinate).collect()
    }

    /// The parameters at a point.
    pub(super) fn at(&self, point: &[f64]) -> Parameters {
        let mut parameters = self.start;
        for (dimension, &coordinate) in self.dimensions.iter().zip(point) {
            dimension.set(&mut parameters, coordinate);
        }
        parameters
    }
}

/// A size as a number to compute with.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 8 PiB, and close enough beyond"
)]
pub(super) fn float(size: u64) -> f64 {
    size as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "neither negative nor large: coordinates are within the unit cube"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn defaults() -> Parameters {
        Parameters {
            fusion_threshold: 128 << 20,
            cycle_time: Duration::ZERO,
            chunk_bytes: 256 << 10,
            small_allreduce_bytes: 32 << 10,
            hierarchy: Hierarchy::default(),
            cache: true,
        }
    }

    pub(crate) fn is_within_bounds(parameters: &Parameters) -> bool {
        let fusion = parameters.fusion_threshold;
        (fusion == 0 || (32 << 10..=128 << 20).contains(&fusion))
            && parameters.cycle_time <= Duration::from_millis(25)
            && (16 << 10..=4 << 20).contains(&parameters.chunk_bytes)
            && (1 << 10..=1 << 20).contains(&parameters.small_allreduce_bytes)
    }

    #[test]
    fn the_defaults_are_a_point() {
        let space = SearchSpace::new(defaults(), &[]);
        assert_eq!(space.at(&space.start()), defaults());
    }

    #[test]
    fn the_corners_are_the_bounds() {
        let space = SearchSpace::new(defaults(), &[]);
        let (least, most) = (space.at(&[0.0; 4]), space.at(&[1.0; 4]));
        assert!(is_within_bounds(&least) && is_within_bounds(&most));
        assert_eq!(
            (least.fusion_threshold, most.fusion_threshold),
            (0, 128 << 20)
        );
        assert_eq!(most.cycle_time, Duration::from_millis(25));
        assert_eq!((least.chunk_bytes, most.chunk_bytes), (16 << 10, 4 << 20));
    }

    proptest! {
        #[test]
        fn space_1_no_coordinate_leads_out_of_the_bounds(
            point in prop::collection::vec(prop_oneof![-1.0..2.0_f64, prop::num::f64::ANY], 4),
        ) {
            prop_assert!(is_within_bounds(&SearchSpace::new(defaults(), &[]).at(&point)));
        }

        #[test]
        fn space_2_what_is_fixed_stays(
            point in prop::collection::vec(0.0..1.0_f64, 4),
            fixed in prop::sample::subsequence(Dimension::ALL.to_vec(), 0..=4),
        ) {
            let reached = SearchSpace::new(defaults(), &fixed).at(&point);
            for dimension in fixed {
                let (was, is) = (dimension.coordinate(&defaults()), dimension.coordinate(&reached));
                prop_assert!((was - is).abs() < f64::EPSILON);
            }
        }

        #[test]
        fn a_start_out_of_bounds_is_brought_within(
            fusion_threshold: u64, cycle: u32, chunk_bytes: u64, small_allreduce_bytes: u64,
        ) {
            let start = Parameters {
                fusion_threshold,
                cycle_time: Duration::from_micros(cycle.into()),
                chunk_bytes,
                small_allreduce_bytes,
                ..defaults()
            };
            let space = SearchSpace::new(start, &[]);
            prop_assert!(is_within_bounds(&space.at(&space.start())));
        }
    }
}
