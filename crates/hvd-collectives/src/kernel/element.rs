//! The arithmetic of one element, for the types that the machine computes with directly, and the
//! loop over pairs of elements in bytes of any alignment.

use std::array;

use bytemuck::Pod;

/// Elements that a loop over pairs hands out at once: as many `float32` as a vector register of
/// 256 bits holds.
pub(super) const LANES: usize = 8;

/// A number with the reductions and the scaling of this crate.
pub(super) trait Element: Pod {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn scaled(self, factor: f64) -> Self;
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Element for $type {
            #[inline]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            #[inline]
            #[allow(
                clippy::cast_lossless,
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::cast_sign_loss,
                reason = "the rule: compute in float64, truncate, clamp; not all types warn of all"
            )]
            fn scaled(self, factor: f64) -> Self {
                (self as f64 * factor) as Self
            }
        }
    )*};
}

integer!(u8 i8 u16 i16 i32 i64);

macro_rules! float {
    ($($type:ty)*) => {$(
        impl Element for $type {
            #[inline]
            fn sum(self, other: Self) -> Self {
                self + other
            }

            #[inline]
            fn product(self, other: Self) -> Self {
                self * other
            }

            // `other` wins unless the comparison says otherwise, so one that is not a number does.
            #[inline]
            fn min(self, other: Self) -> Self {
                if self < other || self.is_nan() { self } else { other }
            }

            #[inline]
            fn max(self, other: Self) -> Self {
                if self > other || self.is_nan() { self } else { other }
            }

            #[inline]
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the rule: a float32 is multiplied by the factor as float32"
            )]
            fn scaled(self, factor: f64) -> Self {
                self * factor as Self
            }
        }
    )*};
}

float!(f32 f64);

/// Shows `visit` all pairs of counterparts, in order; the last ones are filled up with zeros.
pub(super) fn pairs<T: Pod>(
    left: &[u8],
    right: &[u8],
    mut visit: impl FnMut([T; LANES], [T; LANES]),
) {
    let (left, right) = (
        left.chunks_exact(LANES * size_of::<T>()),
        right.chunks_exact(LANES * size_of::<T>()),
    );
    let rest = (left.remainder(), right.remainder());
    for (left, right) in left.zip(right) {
        visit(lanes(left), lanes(right));
    }
    visit(lanes(rest.0), lanes(rest.1));
}

fn lanes<T: Pod>(bytes: &[u8]) -> [T; LANES] {
    array::from_fn(|lane| {
        let element = bytes.get(lane * size_of::<T>()..(lane + 1) * size_of::<T>());
        element.map_or_else(T::zeroed, read)
    })
}

#[inline]
fn read<T: Pod>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(bytes)
}
