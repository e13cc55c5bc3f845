//! The dimensions of a tensor.

use std::fmt;

use smallvec::SmallVec;

/// Dimensions, outermost first. A scalar has none. Those of most tensors need no memory of their
/// own: a shape is made for each of hundreds of gradients in every step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[u64; 4]>);

impl Shape {
    /// A shape from its dimensions.
    pub fn new(dimensions: impl AsRef<[u64]>) -> Self {
        Self(SmallVec::from_slice(dimensions.as_ref()))
    }

    /// The dimensions, outermost first.
    pub fn dimensions(&self) -> &[u64] {
        &self.0
    }

    /// Whether there are no dimensions.
    pub fn is_scalar(&self) -> bool {
        self.0.is_empty()
    }

    /// The outermost dimension; `None` for a scalar.
    pub fn first(&self) -> Option<u64> {
        self.0.first().copied()
    }

    /// The number of elements, or `None` if it does not fit 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.0
            .iter()
            .try_fold(1_u64, |product, &dimension| product.checked_mul(dimension))
    }

    /// The number of elements in one row, that is without the outermost dimension.
    pub fn row_elements(&self) -> Option<u64> {
        self.0
            .iter()
            .skip(1)
            .try_fold(1_u64, |product, &dimension| product.checked_mul(dimension))
    }

    /// The same shape with another outermost dimension.
    #[must_use]
    pub fn with_first(&self, first: u64) -> Self {
        let mut dimensions = self.0.clone();
        if let Some(outermost) = dimensions.first_mut() {
            *outermost = first;
        }
        Self(dimensions)
    }
}

impl FromIterator<u64> for Shape {
    fn from_iter<I: IntoIterator<Item = u64>>(dimensions: I) -> Self {
        Self(dimensions.into_iter().collect())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, dimension) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{dimension}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_elements_and_refuses_overflow() {
        assert_eq!(Shape::new([]).elements(), Some(1));
        assert_eq!(Shape::new([3, 0, 5]).elements(), Some(0));
        assert_eq!(Shape::new([4, 2, 5]).row_elements(), Some(10));
        assert_eq!(Shape::new([u64::MAX, 2]).elements(), None);
    }

    #[test]
    fn prints_as_a_list() {
        assert_eq!(Shape::new([3, 17]).to_string(), "[3, 17]");
        assert_eq!(Shape::new([]).to_string(), "[]");
    }
}
