//! Inputs that every rank can compute for all ranks, and the reductions of whole columns of them,
//! by other formulas than the kernels': integers in 128 bits, floats in `float64`.

use half::{bf16, f16};
use hvd_collectives::Reduction;
use hvd_types::DType;

/// A stream of pseudo-random numbers that depends on nothing but its seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: &[usize]) -> Self {
        let mut this = Self(0x1234_5678);
        for &part in seed {
            this.0 ^= part as u64;
            this.next();
        }
        this
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

pub(crate) fn is_float(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Float16 | DType::Bfloat16 | DType::Float32 | DType::Float64
    )
}

/// One rank's input: any integers, and floats whose reduction over 8 ranks is exact in 8 bits of
/// mantissa, so that the order of the operations does not matter.
pub(crate) fn input(
    dtype: DType,
    reduction: Reduction,
    seed: &[usize],
    elements: usize,
) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    if dtype == DType::Bool {
        return (0..elements)
            .map(|_| [0, 1, 1, 2][numbers.below(4)])
            .collect();
    }
    if !is_float(dtype) {
        return numbers.bytes(elements * dtype.size());
    }
    let choices: &[f64] = match reduction {
        Reduction::Product => &[-2.0, -1.0, -0.5, 0.5, 1.0, 2.0],
        _ => &[-8.0, -7.5, -3.0, -0.5, 0.0, 1.0, 2.5, 5.5, 8.0],
    };
    let values = (0..elements).map(|_| choices[numbers.below(choices.len())]);
    values.flat_map(|value| float_bytes(dtype, value)).collect()
}

/// Bits of all kinds: numbers that round, infinities, zeros of both signs, no numbers.
pub(crate) fn wild_input(dtype: DType, seed: &[usize], elements: usize) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0e-3,
    ];
    let mut element = || match numbers.below(4) {
        0 => float_bytes(dtype, special[numbers.below(special.len())]),
        1 => float_bytes(
            dtype,
            1.0 / (1.0 + f64::from(numbers.next().to_le_bytes()[0])),
        ),
        _ => numbers.bytes(dtype.size()),
    };
    (0..elements).flat_map(|_| element()).collect()
}

/// The reduction of all ranks' inputs, element by element.
pub(crate) fn expected(dtype: DType, reduction: Reduction, inputs: &[Vec<u8>]) -> Vec<u8> {
    let size = dtype.size();
    let column = |at: usize| {
        inputs
            .iter()
            .map(move |input| &input[at * size..(at + 1) * size])
    };
    let elements = inputs[0].len() / size;
    (0..elements)
        .flat_map(|at| match dtype {
            DType::Bool => {
                let mut truths = column(at).map(|byte| byte[0] != 0);
                vec![u8::from(match reduction {
                    Reduction::Sum | Reduction::Max => truths.any(|truth| truth),
                    Reduction::Min | Reduction::Product => truths.all(|truth| truth),
                })]
            }
            _ if is_float(dtype) => {
                let values = column(at).map(|bytes| float(dtype, bytes));
                float_bytes(dtype, reduce_floats(reduction, values))
            }
            _ => {
                let values = column(at).map(|bytes| integer(dtype, bytes));
                reduce_integers(reduction, values).to_le_bytes()[..size].to_vec()
            }
        })
        .collect()
}

pub(crate) fn reduce_integers(reduction: Reduction, values: impl Iterator<Item = i128>) -> i128 {
    match reduction {
        Reduction::Sum => values.sum(),
        Reduction::Product => values.fold(1, i128::wrapping_mul),
        Reduction::Min => values.min().unwrap(),
        Reduction::Max => values.max().unwrap(),
    }
}

pub(crate) fn reduce_floats(reduction: Reduction, values: impl Iterator<Item = f64>) -> f64 {
    match reduction {
        Reduction::Sum => values.sum(),
        Reduction::Product => values.product(),
        Reduction::Min => values.reduce(f64::min).unwrap(),
        Reduction::Max => values.reduce(f64::max).unwrap(),
    }
}

pub(crate) fn integer(dtype: DType, bytes: &[u8]) -> i128 {
    let negative = bytes[bytes.len() - 1] >= 0x80;
    let signed = matches!(
        dtype,
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64
    );
    let mut wide = [if signed && negative { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

pub(crate) fn float(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::Float16 => f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        DType::Bfloat16 => bf16::from_le_bytes(bytes.try_into().unwrap()).to_f64(),
        DType::Float32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        _ => f64::from_le_bytes(bytes.try_into().unwrap()),
    }
}

/// The bytes of a value. The 16-bit types are rounded by way of `float32`, as the rule is; `half`'s
/// own way from `float64` ignores the last places and now and then rounds wrongly.
pub(crate) fn float_bytes(dtype: DType, value: f64) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "that is what a float32 is")]
    let single = value as f32;
    match dtype {
        DType::Float16 => f16::from_f32(single).to_le_bytes().to_vec(),
        DType::Bfloat16 => bf16::from_f32(single).to_le_bytes().to_vec(),
        DType::Float32 => single.to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}
