//! Loops over the elements in bytes of any alignment, compiled three times: for every processor, and
//! for those with vectors of 256 bits and of 512 bits, looked for once per call.
//!
//! An unaligned load costs nothing on the machines this runs on, and the loops become vector code
//! all the same; so there is one loop instead of one for aligned bytes and one for others. All forms
//! do the same operations in the same order on every element.

#![expect(
    unsafe_code,
    reason = "unaligned elements, and instructions that not every x86-64 processor has"
)]

use bytemuck::Pod;

/// Replaces each element of `accumulator` by what `combine` makes of it and its counterpart.
pub(super) fn zip<T: Pod>(accumulator: &mut [u8], operand: &[u8], combine: impl Fn(T, T) -> T) {
    #[cfg(target_arch = "x86_64")]
    match Width::of_this_processor() {
        // SAFETY: the processor has what this is compiled for.
        Width::Bits512 => return unsafe { wide512::zip(accumulator, operand, combine) },
        // SAFETY: as above.
        Width::Bits256 => return unsafe { wide256::zip(accumulator, operand, combine) },
        Width::Any => {}
    }
    any::zip(accumulator, operand, combine);
}

/// Fills `destination` with what `combine` makes of the elements of `left` and `right`.
pub(super) fn merge<T: Pod>(
    destination: &mut [u8],
    left: &[u8],
    right: &[u8],
    combine: impl Fn(T, T) -> T,
) {
    #[cfg(target_arch = "x86_64")]
    match Width::of_this_processor() {
        // SAFETY: the processor has what this is compiled for.
        Width::Bits512 => return unsafe { wide512::merge(destination, left, right, combine) },
        // SAFETY: as above.
        Width::Bits256 => return unsafe { wide256::merge(destination, left, right, combine) },
        Width::Any => {}
    }
    any::merge(destination, left, right, combine);
}

/// Replaces each element by what `change` makes of it.
pub(super) fn map<T: Pod>(data: &mut [u8], change: impl Fn(T) -> T) {
    #[cfg(target_arch = "x86_64")]
    match Width::of_this_processor() {
        // SAFETY: the processor has what this is compiled for.
        Width::Bits512 => return unsafe { wide512::map(data, change) },
        // SAFETY: as above.
        Width::Bits256 => return unsafe { wide256::map(data, change) },
        Width::Any => {}
    }
    any::map(data, change);
}

/// The widest vectors of a processor.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Any,
    Bits256,
    Bits512,
}

#[cfg(target_arch = "x86_64")]
impl Width {
    /// The answers are remembered; asking costs a load and a comparison.
    fn of_this_processor() -> Self {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            Self::Bits512
        } else if is_x86_feature_detected!("avx2") {
            Self::Bits256
        } else {
            Self::Any
        }
    }
}

/// The loops, compiled for processors with some features.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_for {
    ($module:ident, $features:literal) => {
        mod $module {
            use bytemuck::Pod;

            use super::any;

            #[target_feature(enable = $features)]
            pub(super) fn zip<T: Pod>(
                accumulator: &mut [u8],
                operand: &[u8],
                combine: impl Fn(T, T) -> T,
            ) {
                any::zip(accumulator, operand, combine);
            }

            #[target_feature(enable = $features)]
            pub(super) fn merge<T: Pod>(
                destination: &mut [u8],
                left: &[u8],
                right: &[u8],
                combine: impl Fn(T, T) -> T,
            ) {
                any::merge(destination, left, right, combine);
            }

            #[target_feature(enable = $features)]
            pub(super) fn map<T: Pod>(data: &mut [u8], change: impl Fn(T) -> T) {
                any::map(data, change);
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled_for!(wide256, "avx2");
#[cfg(target_arch = "x86_64")]
compiled_for!(wide512, "avx512f,avx512bw");

/// The loops themselves.
#[expect(
    clippy::inline_always,
    reason = "they take on the abilities of the function they are inlined into, or are not worth it"
)]
mod any {
    use bytemuck::Pod;

    #[inline(always)]
    pub(super) fn zip<T: Pod>(accumulator: &mut [u8], operand: &[u8], combine: impl Fn(T, T) -> T) {
        let elements = accumulator.len().min(operand.len()) / size_of::<T>();
        let (places, operands) = (accumulator.as_mut_ptr(), operand.as_ptr());
        for index in 0..elements {
            // SAFETY: the element lies within the shorter of the two.
            let left = unsafe { read(places, index) };
            // SAFETY: as above.
            let right = unsafe { read(operands, index) };
            // SAFETY: as above.
            unsafe { write(places, index, combine(left, right)) };
        }
    }

    #[inline(always)]
    pub(super) fn merge<T: Pod>(
        destination: &mut [u8],
        left: &[u8],
        right: &[u8],
        combine: impl Fn(T, T) -> T,
    ) {
        let shorter = left.len().min(right.len());
        let elements = destination.len().min(shorter) / size_of::<T>();
        let (places, lefts, rights) = (destination.as_mut_ptr(), left.as_ptr(), right.as_ptr());
        for index in 0..elements {
            // SAFETY: the element lies within the shortest of the three.
            let left = unsafe { read(lefts, index) };
            // SAFETY: as above.
            let right = unsafe { read(rights, index) };
            // SAFETY: as above.
            unsafe { write(places, index, combine(left, right)) };
        }
    }

    #[inline(always)]
    pub(super) fn map<T: Pod>(data: &mut [u8], change: impl Fn(T) -> T) {
        let (elements, places) = (data.len() / size_of::<T>(), data.as_mut_ptr());
        for index in 0..elements {
            // SAFETY: the element lies within the data.
            let element = unsafe { read(places, index) };
            // SAFETY: as above.
            unsafe { write(places, index, change(element)) };
        }
    }

    /// # Safety
    /// An element with this index lies in the readable memory at `bytes`.
    #[inline(always)]
    unsafe fn read<T: Pod>(bytes: *const u8, index: usize) -> T {
        // SAFETY: by the caller's promise the address is in bounds.
        let place = unsafe { bytes.cast::<T>().add(index) };
        // SAFETY: by the caller's promise it can be read, and every pattern of bits is a value.
        unsafe { place.read_unaligned() }
    }

    /// # Safety
    /// An element with this index lies in the writable memory at `bytes`.
    #[inline(always)]
    unsafe fn write<T: Pod>(bytes: *mut u8, index: usize, element: T) {
        // SAFETY: by the caller's promise the address is in bounds.
        let place = unsafe { bytes.cast::<T>().add(index) };
        // SAFETY: by the caller's promise it can be written.
        unsafe { place.write_unaligned(element) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`zip`], [`merge`] and [`map`] choose must come to what the plain loops come to.
    #[test]
    fn both_forms_come_to_the_same() {
        for length in [0_usize, 1, 7, 8, 31, 32, 33, 100, 1000] {
            let bytes = |factor: usize| -> Vec<u8> {
                let bytes = (0..length + 3).map(|byte| byte * factor % 251);
                bytes.filter_map(|byte| u8::try_from(byte).ok()).collect()
            };
            let (left, right) = (bytes(7), bytes(5));
            let (left, right) = (&left[1..=length], &right[3..]);
            let add = |one: u32, two: u32| one.wrapping_mul(3).wrapping_add(two);
            let run =
                |zip: &dyn Fn(&mut [u8]), merge: &dyn Fn(&mut [u8]), map: &dyn Fn(&mut [u8])| {
                    [zip, merge, map].map(|step| {
                        let mut data = left.to_vec();
                        step(&mut data);
                        data
                    })
                };
            let chosen = run(
                &|data| zip(data, right, add),
                &|data| merge(data, left, right, add),
                &|data| map(data, |one| add(one, 9)),
            );
            let plain = run(
                &|data| any::zip(data, right, add),
                &|data| any::merge(data, left, right, add),
                &|data| any::map(data, |one| add(one, 9)),
            );
            assert_eq!(chosen, plain, "{length}");
        }
    }
}
