//! Neutral elements: whatever is reduced with them comes out as it went in.

use hvd_collectives::Reduction;
use hvd_collectives::kernel::{fill_neutral, reduce};
use hvd_types::DType;
use proptest::prelude::*;
use proptest::sample::select;

use crate::kernels::{assert_same, draft, dtype, join};

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn neutral_elements_give_the_values_back(
        dtype in dtype(),
        reduction in select(&Reduction::ALL[..]),
        drafts in prop::collection::vec(draft(), 0..300),
    ) {
        let mut values = join(dtype, drafts.into_iter());
        if dtype == DType::Bool {
            for byte in &mut values {
                *byte = u8::from(*byte != 0);
            }
        }
        let mut neutral = vec![0xee; values.len()];
        fill_neutral(dtype, reduction, &mut neutral).unwrap();

        let mut left = values.clone();
        reduce(dtype, reduction, &mut left, &neutral).unwrap();
        assert_same(dtype, &left, &values, &format!("by {reduction:?} with neutral elements"));
        reduce(dtype, reduction, &mut neutral, &values).unwrap();
        assert_same(dtype, &neutral, &values, &format!("by {reduction:?} into neutral elements"));
    }
}

#[test]
fn neutral_elements_by_name() {
    let of = |dtype, reduction| {
        let mut bytes = [0xee; 8];
        fill_neutral(dtype, reduction, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(of(DType::Int64, Reduction::Sum), [0; 8]);
    assert_eq!(of(DType::Int64, Reduction::Product), 1_i64.to_ne_bytes());
    assert_eq!(of(DType::Int64, Reduction::Min), i64::MAX.to_ne_bytes());
    assert_eq!(of(DType::Uint8, Reduction::Max), [0; 8]);
    assert_eq!(
        of(DType::Float64, Reduction::Min),
        f64::INFINITY.to_ne_bytes()
    );
    assert_eq!(
        of(DType::Float64, Reduction::Max),
        f64::NEG_INFINITY.to_ne_bytes()
    );
    assert_eq!(of(DType::Float64, Reduction::Sum), (-0.0_f64).to_ne_bytes());
    assert_eq!(of(DType::Bool, Reduction::Min), [1; 8]);
    assert_eq!(of(DType::Bool, Reduction::Sum), [0; 8]);
    let error = fill_neutral(DType::Int32, Reduction::Sum, &mut [0; 6]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "6 bytes are no whole number of int32 elements"
    );
}
