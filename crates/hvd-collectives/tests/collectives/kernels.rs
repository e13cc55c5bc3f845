//! The element-wise loops against one element at a time, with unaligned bytes, "not a number",
//! infinities and wrap-around, and the rules about rounding as named cases.

use std::cmp::Ordering;

use half::{bf16, f16};
use hvd_collectives::Reduction;
use hvd_collectives::kernel::{copy_scaled, reduce, scale};
use hvd_types::DType;
use proptest::prelude::*;
use proptest::sample::select;

use crate::values::{float, float_bytes, integer, is_float, reduce_floats, reduce_integers};

/// An element before its type is known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Draft {
    Bits(u64),
    Value(f64),
}

const SPECIAL: [f64; 10] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.5,
    2048.0,
    1.0 / 3.0,
    65504.0,
];

impl Draft {
    fn bytes(self, dtype: DType) -> Vec<u8> {
        match self {
            Self::Value(value) if is_float(dtype) => float_bytes(dtype, value),
            Self::Value(value) => value.to_bits().to_be_bytes()[..dtype.size()].to_vec(),
            Self::Bits(bits) => bits.to_le_bytes()[..dtype.size()].to_vec(),
        }
    }
}

pub(crate) fn draft() -> impl Strategy<Value = Draft> {
    prop_oneof![
        any::<u64>().prop_map(Draft::Bits),
        select(&SPECIAL[..]).prop_map(Draft::Value)
    ]
}

pub(crate) fn dtype() -> impl Strategy<Value = DType> {
    select(&DType::ALL[..])
}

fn factor() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), -4.0..4.0_f64, select(&SPECIAL[..])]
}

/// Bytes that begin `offset` after an address divisible by 8.
struct Unaligned {
    words: Vec<u64>,
    bytes: std::ops::Range<usize>,
}

impl Unaligned {
    fn new(offset: usize, content: &[u8]) -> Self {
        let words = vec![0; content.len() / 8 + 2];
        let mut this = Self {
            words,
            bytes: offset..offset + content.len(),
        };
        this.get().copy_from_slice(content);
        this
    }

    fn get(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[self.bytes.clone()]
    }
}

pub(crate) fn join(dtype: DType, drafts: impl Iterator<Item = Draft>) -> Vec<u8> {
    drafts.flat_map(|draft| draft.bytes(dtype)).collect()
}

/// Equal bits, or both not a number.
pub(crate) fn assert_same(dtype: DType, got: &[u8], expected: &[u8], context: &str) {
    let size = dtype.size();
    for (at, (got, expected)) in got.chunks(size).zip(expected.chunks(size)).enumerate() {
        let no_number = is_float(dtype) && float(dtype, expected).is_nan();
        let same = if no_number {
            float(dtype, got).is_nan()
        } else {
            got == expected
        };
        assert!(
            same,
            "{dtype} element {at}: {got:?}, expected {expected:?} {context}"
        );
    }
}

fn reduce_one(dtype: DType, reduction: Reduction, left: &[u8], right: &[u8]) -> Vec<u8> {
    if dtype == DType::Bool {
        let (left, right) = (left[0] != 0, right[0] != 0);
        let or = matches!(reduction, Reduction::Sum | Reduction::Max);
        return vec![u8::from(if or { left || right } else { left && right })];
    }
    if !is_float(dtype) {
        let pair = [integer(dtype, left), integer(dtype, right)];
        return reduce_integers(reduction, pair.into_iter()).to_le_bytes()[..dtype.size()].to_vec();
    }
    let (left, right) = (float(dtype, left), float(dtype, right));
    if left.is_nan() || right.is_nan() {
        return float_bytes(dtype, f64::NAN);
    }
    match (reduction, left.partial_cmp(&right)) {
        // Of zeros with different signs the right one is taken.
        (Reduction::Min | Reduction::Max, Some(Ordering::Equal)) => float_bytes(dtype, right),
        _ => float_bytes(dtype, reduce_floats(reduction, [left, right].into_iter())),
    }
}

fn scale_one(dtype: DType, factor: f64, element: &[u8]) -> Vec<u8> {
    if is_float(dtype) {
        let value = float(dtype, element);
        #[expect(clippy::cast_possible_truncation, reason = "that is the rule")]
        let narrow = f64::from(factor as f32);
        let factor = if dtype == DType::Float64 {
            factor
        } else {
            narrow
        };
        #[expect(clippy::cast_possible_truncation, reason = "that is the rule")]
        let single = f64::from((value * factor) as f32);
        return float_bytes(
            dtype,
            if dtype == DType::Float64 {
                value * factor
            } else {
                single
            },
        );
    }
    let bits = 8 * dtype.size();
    let signed = matches!(
        dtype,
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64
    );
    let (low, high) = if signed {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    #[expect(clippy::cast_precision_loss, reason = "that is the rule")]
    let scaled = (integer(dtype, element) as f64 * factor).trunc();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "128 bits hold what can matter"
    )]
    let clamped = (scaled as i128).clamp(low, high);
    clamped.to_le_bytes()[..dtype.size()].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn reduce_matches_one_element_at_a_time(
        dtype in dtype(),
        reduction in select(&Reduction::ALL[..]),
        drafts in prop::collection::vec((draft(), draft()), 0..1300),
        (offset, other_offset) in (0..8_usize, 0..8_usize),
    ) {
        let left = join(dtype, drafts.iter().map(|pair| pair.0));
        let right = join(dtype, drafts.iter().map(|pair| pair.1));
        let mut accumulator = Unaligned::new(offset, &left);
        let mut operand = Unaligned::new(other_offset, &right);
        reduce(dtype, reduction, accumulator.get(), operand.get()).unwrap();

        let size = dtype.size();
        let pairs = left.chunks(size).zip(right.chunks(size));
        let expected: Vec<u8> =
            pairs.flat_map(|(left, right)| reduce_one(dtype, reduction, left, right)).collect();
        assert_same(dtype, accumulator.get(), &expected, &format!("by {reduction:?}"));
        prop_assert_eq!(operand.get(), &right[..]);
    }

    #[test]
    fn scaling_matches_one_element_at_a_time(
        dtype in dtype().prop_filter("no factor applies", |&dtype| dtype != DType::Bool),
        factor in factor().prop_filter("copies", |factor| factor.to_bits() != 1.0_f64.to_bits()),
        drafts in prop::collection::vec(draft(), 0..1300),
        (offset, other_offset) in (0..8_usize, 0..8_usize),
    ) {
        let content = join(dtype, drafts.into_iter());
        let expected: Vec<u8> = content
            .chunks(dtype.size())
            .flat_map(|element| scale_one(dtype, factor, element))
            .collect();
        let mut data = Unaligned::new(offset, &content);
        let mut copy = Unaligned::new(other_offset, &vec![0xee; content.len()]);
        copy_scaled(dtype, factor, data.get(), copy.get()).unwrap();
        assert_same(dtype, copy.get(), &expected, &format!("copied by {factor}"));
        prop_assert_eq!(data.get(), &content[..]);
        scale(dtype, factor, data.get()).unwrap();
        assert_same(dtype, data.get(), &expected, &format!("by {factor}"));
    }

    #[test]
    fn a_factor_of_one_keeps_every_bit(
        dtype in dtype(),
        drafts in prop::collection::vec(draft(), 0..100),
    ) {
        let content = join(dtype, drafts.into_iter());
        let (mut data, mut copy) = (content.clone(), vec![0xee; content.len()]);
        scale(dtype, 1.0, &mut data).unwrap();
        copy_scaled(dtype, 1.0, &content, &mut copy).unwrap();
        prop_assert_eq!(&data, &content);
        prop_assert_eq!(&copy, &content);
    }
}

#[test]
fn half_floats_round_to_nearest_even_after_each_step() {
    let mut sum = [f16::from_f32(2048.0), f16::from_f32(2050.0)];
    let one = [f16::ONE; 2];
    let bytes = bytemuck::cast_slice_mut(&mut sum);
    reduce(
        DType::Float16,
        Reduction::Sum,
        bytes,
        bytemuck::cast_slice(&one),
    )
    .unwrap();
    assert_eq!(sum, [2048.0, 2052.0].map(f16::from_f32));
    let bytes = bytemuck::cast_slice_mut(&mut sum);
    reduce(
        DType::Float16,
        Reduction::Sum,
        bytes,
        bytemuck::cast_slice(&one),
    )
    .unwrap();
    assert_eq!(
        sum,
        [2048.0, 2052.0].map(f16::from_f32),
        "the lost half does not come back"
    );

    let mut sum = [bf16::from_f32(256.0), bf16::from_f32(258.0)];
    let bytes = bytemuck::cast_slice_mut(&mut sum);
    let one = [bf16::ONE; 2];
    reduce(
        DType::Bfloat16,
        Reduction::Sum,
        bytes,
        bytemuck::cast_slice(&one),
    )
    .unwrap();
    assert_eq!(sum, [256.0, 260.0].map(bf16::from_f32));
}

#[test]
fn half_floats_overflow_to_infinity() {
    let mut sum = [f16::MAX];
    let bytes = bytemuck::cast_slice_mut(&mut sum);
    reduce(
        DType::Float16,
        Reduction::Sum,
        bytes,
        &f16::MAX.to_ne_bytes(),
    )
    .unwrap();
    assert_eq!(sum[0], f16::INFINITY);
}

#[test]
fn minimum_and_maximum_are_no_number_if_either_side_is_none() {
    for reduction in [Reduction::Min, Reduction::Max] {
        for (left, right) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::INFINITY)] {
            let mut result = left.to_ne_bytes();
            reduce(DType::Float32, reduction, &mut result, &right.to_ne_bytes()).unwrap();
            assert!(
                f32::from_ne_bytes(result).is_nan(),
                "{reduction:?} of {left} and {right}"
            );
        }
    }
}

#[test]
fn integers_wrap_when_added_and_clamp_when_scaled() {
    let mut sum = [200];
    reduce(DType::Uint8, Reduction::Sum, &mut sum, &[200]).unwrap();
    assert_eq!(sum, [144]);
    let mut product = i64::MIN.to_ne_bytes();
    reduce(
        DType::Int64,
        Reduction::Product,
        &mut product,
        &(-1_i64).to_ne_bytes(),
    )
    .unwrap();
    assert_eq!(i64::from_ne_bytes(product), i64::MIN);
    let mut scaled = [200, 3];
    scale(DType::Uint8, 2.0, &mut scaled).unwrap();
    assert_eq!(scaled, [255, 6]);
    scale(DType::Uint8, -1.0, &mut scaled).unwrap();
    assert_eq!(scaled, [0, 0]);
}

#[test]
fn sixteen_bit_integers_scale_like_all_others() {
    let mut data = [-5_i16, 5, i16::MAX];
    scale(DType::Int16, 0.5, bytemuck::cast_slice_mut(&mut data)).unwrap();
    assert_eq!(data, [-2, 2, 16383]);
}

#[test]
fn bool_bytes_of_any_value_are_true() {
    let cases = [
        (Reduction::Sum, [0, 1, 1, 1]),
        (Reduction::Max, [0, 1, 1, 1]),
    ];
    let others = [
        (Reduction::Product, [0, 0, 0, 1]),
        (Reduction::Min, [0, 0, 0, 1]),
    ];
    for (reduction, expected) in cases.into_iter().chain(others) {
        let mut result = [0, 0, 4, 2];
        reduce(DType::Bool, reduction, &mut result, &[0, 8, 0, 1]).unwrap();
        assert_eq!(result, expected, "{reduction:?}");
    }
}
