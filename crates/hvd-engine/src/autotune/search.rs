//! The search for the best point of a unit cube with few, noisy observations.
//!
//! The first point is the caller's; one more than the cube has sides follow, spread evenly. From
//! then on each point is where a [`GaussianProcess`] expects the greatest improvement. Speeds are
//! compared by their logarithms, since they differ by factors; one that is more than
//! [`HOPELESS`] times below the best counts as just that, or the scale of the worst would hide all
//! differences between good ones.
//!
//! Nothing here is random: the same observations lead to the same points.

use std::f64::consts::PI;

use super::gaussian::{GaussianProcess, Prediction};

/// How far below the best a speed need not be known any better.
pub(super) const HOPELESS: f64 = 8.0;

/// The least improvement that is looked for, in deviations of what was observed.
const LEAST_IMPROVEMENT: f64 = 0.1;

/// Points all over the cube that are considered each time.
const CANDIDATES: u32 = 200;

/// The part of the cube, around the best point, in which as many again are considered.
const NEARBY: f64 = 0.4;

/// Observations that are kept: enough to know a small cube well, few enough to compute with them
/// between two operations. The worst go first.
const KEPT: usize = 64;

/// One search.
#[derive(Debug)]
pub(super) struct ParameterSearch {
    start: Vec<f64>,
    noise: f64,
    points: Vec<Vec<f64>>,
    /// Logarithms of the speeds.
    values: Vec<f64>,
    /// Points given out so far.
    given: u32,
}

impl ParameterSearch {
    /// A search that begins at `start`. `noise` is the greatest deviation of observations, in units
    /// of their spread.
    pub(super) fn new(start: Vec<f64>, noise: f64) -> Self {
        Self {
            start,
            noise,
            points: Vec::new(),
            values: Vec::new(),
            given: 0,
        }
    }

    /// The next point to observe.
    pub(super) fn next(&mut self) -> Vec<f64> {
        let given = self.given;
        self.given = given.saturating_add(1);
        if given == 0 {
            return self.start.clone();
        }
        let sides = self.start.len();
        if given as usize <= sides + 1 {
            return spread(given, sides);
        }
        self.most_promising()
            .unwrap_or_else(|| spread(given, sides))
    }

    /// Notes what was observed at a point; the speed is more than 0.
    pub(super) fn record(&mut self, point: Vec<f64>, speed: f64) {
        self.points.push(point);
        self.values.push(speed.max(f64::MIN_POSITIVE).ln());
        if self.points.len() > KEPT
            && let Some((worst, _)) = extreme(self.values.iter().map(|value| -value))
        {
            self.points.swap_remove(worst);
            self.values.swap_remove(worst);
        }
    }

    /// The observed point that is expected to be the best, and the speed observed there.
    pub(super) fn best(&self) -> Option<(&[f64], f64)> {
        let values = self.standardised();
        let process = GaussianProcess::fit(&self.points, &values, self.noise)?;
        // The process alone would, where it takes much for noise, prefer the neighbour of several
        // good points to a good one; the observation alone would prefer luck.
        let seen = self.points.iter().zip(&values);
        let (best, _) = extreme(seen.map(|(point, value)| process.predict(point).mean + value))?;
        Some((&self.points[best], self.values[best].exp()))
    }

    fn most_promising(&self) -> Option<Vec<f64>> {
        let values = self.standardised();
        let process = GaussianProcess::fit(&self.points, &values, self.noise)?;
        let known = self.points.iter().map(|point| process.predict(point).mean);
        let (best, best_mean) = extreme(known)?;
        let sides = self.start.len();
        let first = self.given.wrapping_mul(CANDIDATES);
        let anywhere = (0..CANDIDATES).map(|index| spread(first.wrapping_add(index), sides));
        let nearby = (0..CANDIDATES).map(|index| {
            let offsets = spread(first.wrapping_add(index), sides);
            let moved = |(offset, side): (f64, &f64)| side + (offset - 0.5) * NEARBY;
            let sides = offsets.into_iter().zip(&self.points[best]).map(moved);
            sides.map(|side: f64| side.clamp(0.0, 1.0)).collect()
        });
        let mut candidates: Vec<Vec<f64>> = anywhere.chain(nearby).collect();
        let gains = candidates
            .iter()
            .map(|point| expected_improvement(process.predict(point), best_mean));
        let (chosen, _) = extreme(gains)?;
        Some(candidates.swap_remove(chosen))
    }

    /// The values with mean 0 and deviation 1, hopeless ones raised.
    fn standardised(&self) -> Vec<f64> {
        let best = self.values.iter().copied().fold(f64::MIN, f64::max);
        let raised = self
            .values
            .iter()
            .map(|value| value.max(best - HOPELESS.ln()));
        let raised: Vec<f64> = raised.collect();
        let count = f64::from(u32::try_from(raised.len()).unwrap_or(u32::MAX)).max(1.0);
        let mean = raised.iter().sum::<f64>() / count;
        let variance = raised
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / count;
        let deviation = if variance > 1e-12 {
            variance.sqrt()
        } else {
            1.0
        };
        raised
            .iter()
            .map(|value| (value - mean) / deviation)
            .collect()
    }
}

/// The largest of some numbers and its place, the first of equals.
fn extreme(numbers: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    numbers
        .enumerate()
        .reduce(|best, other| if other.1 > best.1 { other } else { best })
}

/// The point of this number in a sequence that fills a cube evenly: each side advances by a power
/// of one irrational number, the root of x to the sides plus one = x + 1.
fn spread(number: u32, sides: usize) -> Vec<f64> {
    let exponent = f64::from(u32::try_from(sides).unwrap_or(u32::MAX)) + 1.0;
    let root = (0..40).fold(1.5_f64, |root, _| (root + 1.0).powf(exponent.recip()));
    let mut advance = 1.0;
    let mut point = Vec::with_capacity(sides);
    for _ in 0..sides {
        advance /= root;
        point.push((0.5 + f64::from(number) * advance).fract());
    }
    point
}

/// By how much a point is expected to be better than `best`, counting only what is better.
fn expected_improvement(prediction: Prediction, best: f64) -> f64 {
    let Prediction { mean, deviation } = prediction;
    let improvement = mean - best - LEAST_IMPROVEMENT;
    if deviation < 1e-9 {
        return improvement.max(0.0);
    }
    let ratio = improvement / deviation;
    let density = (-0.5 * ratio * ratio).exp() / (2.0 * PI).sqrt();
    improvement * normal_below(ratio) + deviation * density
}

/// The part of a normal distribution below `x`, to three digits: a logistic curve in a cubic.
fn normal_below(x: f64) -> f64 {
    let argument = 1.5976 * x + 0.07056 * x.powi(3);
    1.0 / (1.0 + (-argument).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise that is the same in every run: within a factor of 1 + `part` either way.
    fn noisy(speed: f64, index: u32, part: f64) -> f64 {
        let wobble = (f64::from(index) * 0.754_877_666).fract() * 2.0 - 1.0;
        speed * (1.0 + part).powf(wobble)
    }

    fn best_speed(start: &[f64], speed: impl Fn(&[f64]) -> f64, samples: u32) -> f64 {
        let mut search = ParameterSearch::new(start.to_vec(), 0.8);
        for index in 0..samples {
            let point = search.next();
            assert!(point.iter().all(|side| (0.0..=1.0).contains(side)));
            let observed = noisy(speed(&point), index, 0.1);
            search.record(point, observed);
        }
        speed(search.best().unwrap().0)
    }

    #[test]
    fn the_distribution_is_known_well_enough() {
        let table = [
            (0.0, 0.5),
            (1.0, 0.8413),
            (-1.0, 0.1587),
            (2.0, 0.9772),
            (-3.0, 0.0013),
        ];
        for (x, expected) in table {
            assert!(
                (normal_below(x) - expected).abs() < 2e-3,
                "{x}: {}",
                normal_below(x)
            );
        }
    }

    #[test]
    fn the_sequence_fills_the_cube() {
        for sides in 1..=4 {
            for side in 0..sides {
                let mut eighths: Vec<u32> = vec![0; 8];
                for number in 0..160 {
                    let point = spread(number, sides);
                    let eighth = (0..8).position(|i| point[side] < f64::from(i + 1) / 8.0);
                    eighths[eighth.unwrap()] += 1;
                }
                assert!(
                    eighths.iter().all(|count| (10..=30).contains(count)),
                    "{eighths:?}"
                );
            }
        }
    }

    #[test]
    fn a_hill_is_climbed_far_higher_than_without_method() {
        let (mut found, mut without_method) = (0.0, 0.0);
        for seed in 0..10 {
            let top = spread(seed * 7 + 3, 4);
            let hill = |point: &[f64]| {
                let square = |(side, top): (&f64, &f64)| (side - top).powi(2);
                (-4.0 * point.iter().zip(&top).map(square).sum::<f64>()).exp()
            };
            found += best_speed(&[0.0; 4], hill, 20) / 10.0;
            let points = (0..20).map(|index| hill(&spread(seed * 100 + index, 4)));
            without_method += points.fold(0.0, f64::max) / 10.0;
        }
        assert!(found > 0.8, "{found}");
        assert!(found > without_method + 0.15, "{found}, {without_method}");
    }

    #[test]
    fn one_side_that_matters_is_found_among_four() {
        let slope = |point: &[f64]| 1.0 / (1.0 + 100.0 * point[1].powi(3));
        let best = best_speed(&[0.5, 1.0, 0.5, 0.5], slope, 20);
        assert!(best > 0.7, "{best}");
    }

    #[test]
    fn a_good_start_is_not_left_for_something_worse() {
        let ridge = |point: &[f64]| 1.0 / (1.0 + 3.0 * point[0] + point[1]);
        let best = best_speed(&[0.0, 0.0], ridge, 20);
        assert!(best > 0.85, "{best}");
    }

    #[test]
    fn many_observations_are_thinned_out() {
        let mut search = ParameterSearch::new(vec![0.5], 0.1);
        for _ in 0..200 {
            let point = search.next();
            let speed = 1.0 + point[0];
            search.record(point, speed);
        }
        assert!(search.points.len() <= KEPT);
        assert!(search.best().unwrap().1 > 1.9);
    }

    #[test]
    fn a_cube_without_sides_has_one_point() {
        let mut search = ParameterSearch::new(Vec::new(), 0.8);
        for _ in 0..4 {
            let point = search.next();
            assert!(point.is_empty());
            search.record(point, 1.0);
        }
        assert!(search.best().is_some());
    }
}
