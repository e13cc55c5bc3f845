//! Several tensors seen as one run of bytes, without copying them together.
//!
//! Algorithms that can read and write in small parts work on the tensors where they are; this file
//! knows where a range of the whole begins and ends in each of them. Moves no bytes.

use std::ops::Range;

use crate::Result;

/// One tensor of an operation.
#[derive(Debug)]
pub struct Tensor<'a> {
    /// Where its values come from, and where the result goes.
    pub memory: TensorMemory<'a>,
    /// What the values are multiplied by before anything else.
    pub factor: f64,
}

/// Where the values of a tensor come from, and where the result goes.
#[derive(Debug)]
pub enum TensorMemory<'a> {
    /// The result replaces the values.
    InPlace(&'a mut [u8]),
    /// The values stay as they are. Both have the same length.
    Apart {
        /// The values.
        input: &'a [u8],
        /// The result.
        output: &'a mut [u8],
    },
}

impl Tensor<'_> {
    /// Bytes of the tensor.
    pub fn len(&self) -> usize {
        self.input().len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn input(&self) -> &[u8] {
        match &self.memory {
            TensorMemory::InPlace(bytes) => bytes,
            TensorMemory::Apart { input, .. } => input,
        }
    }

    pub(crate) fn output(&mut self) -> &mut [u8] {
        match &mut self.memory {
            TensorMemory::InPlace(bytes) => bytes,
            TensorMemory::Apart { output, .. } => output,
        }
    }
}

/// Tensors one after the other.
#[derive(Debug)]
pub(crate) struct Tensors<'a, 'b> {
    tensors: &'a mut [Tensor<'b>],
    /// By tensor, where it ends.
    ends: Vec<usize>,
}

/// What lies in one tensor of a range of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The tensor.
    pub(crate) tensor: usize,
    /// The part of the tensor.
    pub(crate) inside: Range<usize>,
    /// The same part, counted from the start of the range.
    pub(crate) offset: Range<usize>,
}

impl<'a, 'b> Tensors<'a, 'b> {
    pub(crate) fn new(tensors: &'a mut [Tensor<'b>]) -> Self {
        let mut end = 0;
        let ends = tensors
            .iter()
            .map(|tensor| {
                end += tensor.len();
                end
            })
            .collect();
        Self { tensors, ends }
    }

    /// Bytes of all tensors.
    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(crate) fn input(&self, stretch: &Stretch) -> &[u8] {
        &self.tensors[stretch.tensor].input()[stretch.inside.clone()]
    }

    pub(crate) fn factor(&self, stretch: &Stretch) -> f64 {
        self.tensors[stretch.tensor].factor
    }

    pub(crate) fn output(&mut self, stretch: &Stretch) -> &mut [u8] {
        &mut self.tensors[stretch.tensor].output()[stretch.inside.clone()]
    }

    /// The tensor at the start of a range, with as much of the range as lies in it but not more
    /// than `most` bytes; none if the range is empty.
    fn first_of(&self, range: &Range<usize>, most: usize) -> Option<Stretch> {
        if range.is_empty() {
            return None;
        }
        let tensor = self.ends.partition_point(|&end| end <= range.start);
        let end = *self.ends.get(tensor)?;
        let start = end - self.tensors[tensor].len();
        let length = range.len().min(end - range.start).min(most);
        let inside = range.start - start..range.start - start + length;
        Some(Stretch {
            tensor,
            inside,
            offset: 0..length,
        })
    }

    /// The stretches of a range, in order, each at most `most` bytes long: the one after `done`
    /// bytes of it.
    fn after(&self, range: &Range<usize>, done: usize, most: usize) -> Option<Stretch> {
        let mut stretch = self.first_of(&(range.start + done..range.end), most)?;
        stretch.offset = done..done + stretch.inside.len();
        Some(stretch)
    }

    /// Calls `visit` for the stretches of a range, in order.
    pub(crate) fn view(
        &self,
        range: Range<usize>,
        mut visit: impl FnMut(Stretch) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while let Some(stretch) = self.after(&range, done, usize::MAX) {
            done = stretch.offset.end;
            visit(stretch)?;
        }
        Ok(())
    }

    /// As [`Tensors::view`], with stretches of at most `most` bytes and the tensors to write to.
    pub(crate) fn each(
        &mut self,
        range: Range<usize>,
        most: usize,
        mut visit: impl FnMut(&mut Self, Stretch) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while let Some(stretch) = self.after(&range, done, most) {
            done = stretch.offset.end;
            visit(self, stretch)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_found_in_its_tensors() {
        let (mut one, mut two, three) = ([1, 2, 3], [], [4, 5, 6, 7, 8]);
        let mut result = [0; 5];
        let mut all = [
            TensorMemory::InPlace(&mut one),
            TensorMemory::InPlace(&mut two),
            TensorMemory::Apart {
                input: &three,
                output: &mut result,
            },
        ]
        .map(|memory| Tensor {
            memory,
            factor: 1.0,
        });
        let mut tensors = Tensors::new(&mut all);
        assert_eq!(tensors.len(), 8);
        let mut found = Vec::new();
        let visited = tensors.each(1..7, 3, |tensors, stretch| {
            found.push(tensors.input(&stretch).to_vec());
            let offset = stretch.offset.clone();
            tensors
                .output(&stretch)
                .copy_from_slice(&[9, 9, 9][..offset.len()]);
            Ok(())
        });
        visited.unwrap();
        assert_eq!(found, [vec![2, 3], vec![4, 5, 6], vec![7]]);
        assert_eq!(
            (one, three, result),
            ([1, 9, 9], [4, 5, 6, 7, 8], [9, 9, 9, 9, 0])
        );
    }
}
