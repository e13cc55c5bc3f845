//! Loops over 16-bit floats, computed in `float32` and rounded to nearest even after each step.
//!
//! `half` has the conversions too, but asks for the processor's abilities at every few elements:
//! reductions with it ran at 1.4 to 2 GB/s where `float32` gets 20 and more. So `bfloat16` is
//! converted with integer arithmetic that compiles to vector code everywhere, two at a time, and `float16` with
//! the processor's instructions on x86-64, looked for once per call. Where they are missing,
//! `half` does it.

#![expect(
    unsafe_code,
    reason = "instructions that not every x86-64 processor has"
)]

use bytemuck::Pod;
use half::{bf16, f16};

use super::element::{self, LANES};
use super::sweep;

/// `float16` or `bfloat16`. What callers do with the elements may make no "not a number" of a kind
/// that neither an element nor the processor has.
pub(super) trait HalfFloat: Pod {
    /// As [`sweep::zip`], computing in `float32`.
    fn zip(accumulator: &mut [u8], operand: &[u8], combine: impl Fn(f32, f32) -> f32);

    /// As [`sweep::merge`], computing in `float32`.
    fn merge(destination: &mut [u8], left: &[u8], right: &[u8], combine: impl Fn(f32, f32) -> f32);

    /// As [`sweep::map`], computing in `float32`.
    fn map(data: &mut [u8], change: impl Fn(f32) -> f32);

    /// As [`element::pairs`], in `float32`.
    fn pairs(left: &[u8], right: &[u8], visit: impl FnMut([f32; LANES], [f32; LANES]));
}

impl HalfFloat for f16 {
    fn zip(accumulator: &mut [u8], operand: &[u8], combine: impl Fn(f32, f32) -> f32) {
        #[cfg(target_arch = "x86_64")]
        if x86::is_available() {
            // SAFETY: the processor was just asked for what `x86::zip` is compiled for.
            unsafe { x86::zip(accumulator, operand, combine) };
            return;
        }
        sweep::zip(accumulator, operand, |left: Self, right: Self| {
            Self::from_f32(combine(left.to_f32(), right.to_f32()))
        });
    }

    fn merge(destination: &mut [u8], left: &[u8], right: &[u8], combine: impl Fn(f32, f32) -> f32) {
        #[cfg(target_arch = "x86_64")]
        if x86::is_available() {
            // SAFETY: the processor was just asked for what `x86::merge` is compiled for.
            unsafe { x86::merge(destination, left, right, combine) };
            return;
        }
        sweep::merge(destination, left, right, |left: Self, right: Self| {
            Self::from_f32(combine(left.to_f32(), right.to_f32()))
        });
    }

    fn map(data: &mut [u8], change: impl Fn(f32) -> f32) {
        #[cfg(target_arch = "x86_64")]
        if x86::is_available() {
            // SAFETY: the processor was just asked for what `x86::map` is compiled for.
            unsafe { x86::map(data, change) };
            return;
        }
        sweep::map(data, |element: Self| {
            Self::from_f32(change(element.to_f32()))
        });
    }

    fn pairs(left: &[u8], right: &[u8], mut visit: impl FnMut([f32; LANES], [f32; LANES])) {
        #[cfg(target_arch = "x86_64")]
        if x86::is_available() {
            // SAFETY: the processor was just asked for what `x86::pairs` is compiled for.
            unsafe { x86::pairs(left, right, visit) };
            return;
        }
        element::pairs(left, right, |left: [Self; LANES], right| {
            visit(left.map(Self::to_f32), right.map(Self::to_f32));
        });
    }
}

impl HalfFloat for bf16 {
    fn zip(accumulator: &mut [u8], operand: &[u8], combine: impl Fn(f32, f32) -> f32) {
        let (words, last) = accumulator.split_at_mut(accumulator.len() / WORD * WORD);
        let (others, last_other) = operand.split_at(words.len());
        sweep::zip(words, others, |left: u32, right: u32| {
            both(left, right, &combine)
        });
        sweep::zip(last, last_other, |left: Self, right: Self| {
            narrow(combine(widen(left), widen(right)))
        });
    }

    fn merge(destination: &mut [u8], left: &[u8], right: &[u8], combine: impl Fn(f32, f32) -> f32) {
        let (words, last) = destination.split_at_mut(destination.len() / WORD * WORD);
        let (left, last_left) = left.split_at(words.len());
        let (right, last_right) = right.split_at(words.len());
        sweep::merge(words, left, right, |left: u32, right: u32| {
            both(left, right, &combine)
        });
        sweep::merge(last, last_left, last_right, |left: Self, right: Self| {
            narrow(combine(widen(left), widen(right)))
        });
    }

    fn map(data: &mut [u8], change: impl Fn(f32) -> f32) {
        let (words, last) = data.split_at_mut(data.len() / WORD * WORD);
        sweep::map(words, |pair: u32| both(pair, 0, &|value, _| change(value)));
        sweep::map(last, |element: Self| narrow(change(widen(element))));
    }

    fn pairs(left: &[u8], right: &[u8], mut visit: impl FnMut([f32; LANES], [f32; LANES])) {
        element::pairs(left, right, |left, right| {
            visit(left.map(widen), right.map(widen));
        });
    }
}

/// Bytes of two elements.
const WORD: usize = 4;

/// The upper half of a word.
const UPPER: u32 = 0xffff_0000;

/// Two elements at a time, in the halves of a word: each is a `float32` once the other half is
/// cleared or shifted away, so that vectors of words need no shuffling.
///
/// What is not a number needs no look: it comes from an element or is the processor's own, so its
/// lower half is empty and rounding carries nothing into the upper one.
#[inline]
fn both(left: u32, right: u32, combine: &impl Fn(f32, f32) -> f32) -> u32 {
    let lower = combine(f32::from_bits(left << 16), f32::from_bits(right << 16));
    let upper = combine(f32::from_bits(left & UPPER), f32::from_bits(right & UPPER));
    carried(lower) >> 16 | carried(upper) & UPPER
}

/// A `bfloat16` is the upper half of a `float32`.
#[inline]
fn widen(narrow: bf16) -> f32 {
    f32::from_bits(u32::from(narrow.to_bits()) << 16)
}

/// The nearest `bfloat16`, the even one of two; "not a number" stays so, and becomes quiet.
#[inline]
fn narrow(value: f32) -> bf16 {
    let quiet = value.to_bits() | 0x0040_0000;
    let word = if value.is_nan() {
        quiet
    } else {
        carried(value)
    };
    bf16::from_bits((word >> 16) as u16)
}

/// A word whose upper half is the nearest `bfloat16`.
#[inline]
fn carried(value: f32) -> u32 {
    let bits = value.to_bits();
    // Just less than half of the last place that stays, and the rest if that place is odd: carries
    // into the upper half exactly when rounding up is right.
    bits.wrapping_add(0x7fff + ((bits >> 16) & 1))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256, _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph,
    };
    use std::array;

    use super::LANES;

    /// Bytes of the elements that one instruction converts.
    const BYTES: usize = LANES * 2;

    pub(super) fn is_available() -> bool {
        is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c")
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn zip(left: &mut [u8], right: &[u8], combine: impl Fn(f32, f32) -> f32) {
        let (left, left_rest) = left.as_chunks_mut::<BYTES>();
        let (right, right_rest) = right.as_chunks::<BYTES>();
        for (left, right) in left.iter_mut().zip(right) {
            let (wide, others) = (widen(*left), widen(*right));
            *left = narrow(array::from_fn(|lane| combine(wide[lane], others[lane])));
        }
        let (wide, others) = (widen(padded(left_rest)), widen(padded(right_rest)));
        let last = narrow(array::from_fn(|lane| combine(wide[lane], others[lane])));
        left_rest.copy_from_slice(&last[..left_rest.len()]);
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn merge(
        destination: &mut [u8],
        left: &[u8],
        right: &[u8],
        combine: impl Fn(f32, f32) -> f32,
    ) {
        let (places, last_places) = destination.as_chunks_mut::<BYTES>();
        let (left, left_rest) = left.as_chunks::<BYTES>();
        let (right, right_rest) = right.as_chunks::<BYTES>();
        for (place, (left, right)) in places.iter_mut().zip(left.iter().zip(right)) {
            let (wide, others) = (widen(*left), widen(*right));
            *place = narrow(array::from_fn(|lane| combine(wide[lane], others[lane])));
        }
        let (wide, others) = (widen(padded(left_rest)), widen(padded(right_rest)));
        let last = narrow(array::from_fn(|lane| combine(wide[lane], others[lane])));
        last_places.copy_from_slice(&last[..last_places.len()]);
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn map(data: &mut [u8], change: impl Fn(f32) -> f32) {
        let (data, rest) = data.as_chunks_mut::<BYTES>();
        for bytes in data {
            *bytes = narrow(widen(*bytes).map(&change));
        }
        let last = narrow(widen(padded(rest)).map(&change));
        rest.copy_from_slice(&last[..rest.len()]);
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn pairs(
        left: &[u8],
        right: &[u8],
        mut visit: impl FnMut([f32; LANES], [f32; LANES]),
    ) {
        let (left, left_rest) = left.as_chunks::<BYTES>();
        let (right, right_rest) = right.as_chunks::<BYTES>();
        for (left, right) in left.iter().zip(right) {
            visit(widen(*left), widen(*right));
        }
        visit(widen(padded(left_rest)), widen(padded(right_rest)));
    }

    #[target_feature(enable = "avx,f16c")]
    fn widen(bytes: [u8; BYTES]) -> [f32; LANES] {
        let lanes: __m128i = bytemuck::cast(bytes);
        bytemuck::cast(_mm256_cvtph_ps(lanes))
    }

    #[target_feature(enable = "avx,f16c")]
    fn narrow(wide: [f32; LANES]) -> [u8; BYTES] {
        let lanes: __m256 = bytemuck::cast(wide);
        bytemuck::cast(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(lanes))
    }

    fn padded(rest: &[u8]) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..rest.len()].copy_from_slice(rest);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::element::Element;
    use super::*;

    /// Every `bfloat16` with some of every kind, two at a time and one at a time.
    #[test]
    fn words_of_two_come_to_what_single_elements_come_to() {
        let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        let same = |one: bf16, other: bf16| one == other || one.is_nan() && other.is_nan();
        for bits in [
            0, 0x8000, 1, 0x3f80, 0xbf81, 0x7f7f, 0x7f80, 0xff80, 0x7fff, 0xff81, 0x7fc0,
        ] {
            let other = bf16::from_bits(bits);
            for combine in [Element::sum, Element::product, Element::min, Element::max] {
                let mut pairs = all.clone();
                let others = vec![other; all.len()];
                bf16::zip(
                    bytemuck::cast_slice_mut(&mut pairs),
                    bytemuck::cast_slice(&others),
                    combine,
                );
                for (&element, &got) in all.iter().zip(&pairs) {
                    let expected = narrow(combine(widen(element), widen(other)));
                    assert!(same(got, expected), "{element:?} {other:?} {got:?}");
                }
            }
        }
    }

    fn map_all<H: HalfFloat>(elements: &[H], change: impl Fn(f32) -> f32) -> Vec<H> {
        let mut changed = elements.to_vec();
        H::map(bytemuck::cast_slice_mut(&mut changed), change);
        changed
    }

    #[test]
    fn every_half_float_survives_the_way_there_and_back() {
        let short: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        for (before, after) in short.iter().zip(map_all(&short, |value| value)) {
            assert!(before.to_bits() == after.to_bits() || before.is_nan() && after.is_nan());
        }
        let brain: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
        for (before, after) in brain.iter().zip(map_all(&brain, |value| value)) {
            assert!(before.to_bits() == after.to_bits() || before.is_nan() && after.is_nan());
        }
    }

    #[test]
    fn float32_is_rounded_to_the_nearest_even_half_float() {
        // All upper halves of a float32, with lower halves round the ties of both types; the
        // software conversions of `half` come to the same results in another way.
        for lower in [
            0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x0fff, 0x1000, 0x1001, 0x3000,
        ] {
            for upper in 0..=0xffff_u32 {
                let value = f32::from_bits(upper << 16 | lower);
                let [short] = map_all(&[f16::ZERO], |_| value)[..] else {
                    unreachable!()
                };
                let (brain, expected) = (narrow(value), f16::from_f32_const(value));
                if value.is_nan() {
                    assert!(short.is_nan() && brain.is_nan(), "{upper:x}{lower:04x}");
                } else {
                    assert_eq!(short.to_bits(), expected.to_bits(), "{value}");
                    assert_eq!(
                        brain.to_bits(),
                        bf16::from_f32_const(value).to_bits(),
                        "{value}"
                    );
                }
            }
        }
    }
}
