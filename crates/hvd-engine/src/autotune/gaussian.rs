//! Gaussian process regression over points of a unit cube: what is to be expected at a point, and
//! how sure that is, after some noisy observations.
//!
//! The values are expected to have mean 0 and deviation 1. The covariance of two points falls with
//! their distance (Matérn 5/2), measured on each side of the cube in units of that side's length
//! scale. Scales, and the share of noise, are chosen among a few by how likely they make the
//! observations: a side that does not matter gets a long scale and costs no observations.

/// Length scales to choose from.
const SCALES: [f64; 4] = [0.15, 0.4, 1.0, 4.0];

/// Parts of the greatest noise to choose from.
const NOISE_PARTS: [f64; 4] = [1.0, 0.5, 0.25, 0.1];

/// Noise that is always assumed: keeps the matrix regular if a point was observed twice.
const LEAST_NOISE: f64 = 1e-3;

/// A fitted process.
#[derive(Debug)]
pub(super) struct GaussianProcess<'a> {
    points: &'a [Vec<f64>],
    shape: KernelShape,
    factor: Factor,
    /// The inverse of the covariances times the values.
    weights: Vec<f64>,
}

/// What is chosen by likelihood.
#[derive(Debug, Clone)]
struct KernelShape {
    scales: Vec<f64>,
    noise: f64,
}

/// What is known about one point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prediction {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl<'a> GaussianProcess<'a> {
    /// Fits a process to the values observed at some points, with a deviation of up to `noise` in
    /// the observations. `None` without observations.
    pub(super) fn fit(points: &'a [Vec<f64>], values: &[f64], noise: f64) -> Option<Self> {
        let sides = points.first()?.len();
        let mut best = Self::of(
            points,
            values,
            KernelShape {
                scales: vec![SCALES[1]; sides],
                noise,
            },
        )?;
        let mut likelihood = best.likelihood(values);
        let mut consider = |best: &mut Self, shape| {
            let Some(other) = Self::of(points, values, shape) else {
                return;
            };
            let other_likelihood = other.likelihood(values);
            if other_likelihood > likelihood {
                likelihood = other_likelihood;
                *best = other;
            }
        };
        for _ in 0..2 {
            for part in NOISE_PARTS {
                let noise = noise * part;
                let scales = best.shape.scales.clone();
                consider(&mut best, KernelShape { scales, noise });
            }
            for (side, scale) in (0..sides).flat_map(|side| SCALES.map(|scale| (side, scale))) {
                let mut shape = best.shape.clone();
                shape.scales[side] = scale;
                consider(&mut best, shape);
            }
        }
        Some(best)
    }

    fn of(points: &'a [Vec<f64>], values: &[f64], shape: KernelShape) -> Option<Self> {
        let variance = shape.noise.max(LEAST_NOISE).powi(2);
        let row = |i: usize| -> Vec<f64> {
            let mut row: Vec<f64> = (0..=i)
                .map(|j| shape.covariance(&points[i], &points[j]))
                .collect();
            row[i] += variance;
            row
        };
        let factor = Factor::of((0..points.len()).map(row).collect())?;
        let weights = factor.solve_transposed(factor.solve(values));
        Some(Self {
            points,
            shape,
            factor,
            weights,
        })
    }

    /// What is to be expected at a point, apart from noise.
    pub(super) fn predict(&self, point: &[f64]) -> Prediction {
        let covariances: Vec<f64> = self
            .points
            .iter()
            .map(|other| self.shape.covariance(point, other))
            .collect();
        let mean = dot(&covariances, &self.weights);
        let known = self.factor.solve(&covariances);
        let variance = 1.0 - dot(&known, &known);
        Prediction {
            mean,
            deviation: variance.max(0.0).sqrt(),
        }
    }

    /// The logarithm of the values' likelihood, up to a constant.
    fn likelihood(&self, values: &[f64]) -> f64 {
        let diagonal = self.factor.0.iter().enumerate();
        let determinant: f64 = diagonal.map(|(i, row)| row[i].ln()).sum();
        -0.5 * dot(values, &self.weights) - determinant
    }
}

impl KernelShape {
    fn covariance(&self, a: &[f64], b: &[f64]) -> f64 {
        let sides = a.iter().zip(b).zip(&self.scales);
        let square: f64 = sides.map(|((a, b), scale)| ((a - b) / scale).powi(2)).sum();
        let distance = (5.0 * square).sqrt();
        (1.0 + distance + distance.powi(2) / 3.0) * (-distance).exp()
    }
}

/// The lower triangle L, by rows, of a positive matrix written as L times its transpose.
#[derive(Debug)]
struct Factor(Vec<Vec<f64>>);

impl Factor {
    /// Factors the matrix with this lower triangle; `None` if it is not positive.
    fn of(mut rows: Vec<Vec<f64>>) -> Option<Self> {
        for i in 0..rows.len() {
            let (done, rest) = rows.split_at_mut(i);
            let row = &mut rest[0];
            for (j, above) in done.iter().enumerate() {
                row[j] = (row[j] - dot(&row[..j], &above[..j])) / above[j];
            }
            let square = row[i] - dot(&row[..i], &row[..i]);
            if square.is_nan() || square <= 0.0 {
                return None;
            }
            row[i] = square.sqrt();
        }
        Some(Self(rows))
    }

    /// The x with L x = `values`.
    fn solve(&self, values: &[f64]) -> Vec<f64> {
        let mut solution = Vec::with_capacity(values.len());
        for (i, (row, value)) in self.0.iter().zip(values).enumerate() {
            solution.push((value - dot(&row[..i], &solution)) / row[i]);
        }
        solution
    }

    /// The x with L transposed times x = `values`.
    fn solve_transposed(&self, mut values: Vec<f64>) -> Vec<f64> {
        for (i, row) in self.0.iter().enumerate().rev() {
            values[i] /= row[i];
            let solved = values[i];
            for (value, entry) in values.iter_mut().zip(&row[..i]) {
                *value -= entry * solved;
            }
        }
        values
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(x: f64) -> f64 {
        (6.0 * x).sin()
    }

    #[test]
    fn a_system_of_equations_is_solved() {
        let factor = Factor::of(vec![vec![4.0], vec![2.0, 5.0]]).unwrap();
        let solution = factor.solve_transposed(factor.solve(&[8.0, 12.0]));
        assert!((4.0 * solution[0] + 2.0 * solution[1] - 8.0).abs() < 1e-12);
        assert!((2.0 * solution[0] + 5.0 * solution[1] - 12.0).abs() < 1e-12);
        assert!(Factor::of(vec![vec![1.0], vec![2.0, 1.0]]).is_none());
    }

    #[test]
    fn without_noise_it_goes_through_the_observations_and_is_unsure_elsewhere() {
        let points: Vec<Vec<f64>> = [0.0, 0.3, 0.6, 0.9].map(|x| vec![x]).to_vec();
        let values: Vec<f64> = points.iter().map(|point| wave(point[0])).collect();
        let process = GaussianProcess::fit(&points, &values, 0.0).unwrap();
        for (point, value) in points.iter().zip(&values) {
            let Prediction { mean, deviation } = process.predict(point);
            assert!((mean - value).abs() < 0.01 && deviation < 0.01);
        }
        assert!(process.predict(&[0.45]).deviation > 0.02);
        assert!((process.predict(&[0.45]).mean - wave(0.45)).abs() < 0.3);
    }

    #[test]
    fn a_side_without_effect_gets_a_long_scale() {
        let points: Vec<Vec<f64>> = (0..12)
            .map(|i| vec![f64::from(i) / 11.0, f64::from(i * 5 % 12) / 11.0])
            .collect();
        let values: Vec<f64> = points.iter().map(|point| wave(point[0])).collect();
        let process = GaussianProcess::fit(&points, &values, 0.2).unwrap();
        assert!(process.shape.scales[1] > process.shape.scales[0]);
    }

    #[test]
    fn a_point_observed_twice_is_no_trouble() {
        let points = vec![vec![0.5], vec![0.5]];
        let process = GaussianProcess::fit(&points, &[1.0, -1.0], 0.0).unwrap();
        assert!(process.predict(&[0.5]).mean.abs() < 0.01);
    }
}
