//! The processes of a soak over their lives, which show whether they grow.

use std::collections::BTreeMap;

use super::record::{Process, Sample};
use crate::statistics::median;

/// A process has filled its caches after so many seconds.
const WARM: f64 = 120.0;

/// A process shows growth only if it ran so many seconds after that.
const LONG: f64 = 600.0;

/// A quantity of a process, and how much it may grow.
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) of: fn(&Process) -> f64,
    /// The growth that is no leak: a factor and a sum.
    bound: (f64, f64),
}

/// The quantities that must not grow.
pub(crate) const QUANTITIES: [Quantity; 3] = [
    Quantity { name: "MB", of: |it| it.rss_mb, bound: (1.2, 8.0) },
    Quantity { name: "descriptors", of: |it| it.descriptors as f64, bound: (1.0, 8.0) },
    Quantity { name: "threads", of: |it| it.threads as f64, bound: (1.0, 4.0) },
];

/// A process over its life.
pub(crate) struct Life {
    pub(crate) replica: usize,
    samples: Vec<(f64, Process)>,
}

/// How a quantity grew after the caches had filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// The medians of the first and of the last third of that time.
    pub(crate) first: f64,
    pub(crate) last: f64,
    /// The slope of the line with the least squares.
    pub(crate) an_hour: f64,
}

impl Growth {
    /// Returns true if the quantity grew more than it may.
    pub(crate) fn is_leak(&self, quantity: &Quantity) -> bool {
        self.last > self.first * quantity.bound.0 + quantity.bound.1
    }
}

impl Life {
    /// Returns the lives of all processes.
    pub(crate) fn all(samples: &[Sample]) -> Vec<Self> {
        let mut lives: BTreeMap<(usize, u32), Vec<(f64, Process)>> = BTreeMap::new();
        for sample in samples {
            for process in &sample.replicas {
                lives.entry((process.replica, process.pid)).or_default().push((sample.at, process.clone()));
            }
        }
        lives.into_iter().map(|((replica, _), samples)| Self { replica, samples }).collect()
    }

    /// Returns its seconds.
    pub(crate) fn age(&self) -> f64 {
        self.samples.last().map_or(0.0, |(_, process)| process.age)
    }

    /// Returns its CPU seconds.
    pub(crate) fn cpu(&self) -> f64 {
        self.samples.last().map_or(0.0, |(_, process)| process.cpu_s)
    }

    /// Returns how a quantity grew, or `None` if the life is too short.
    pub(crate) fn growth(&self, quantity: &Quantity) -> Option<Growth> {
        let warm = self.samples.iter().filter(|(_, it)| it.age >= WARM);
        let warm: Vec<(f64, f64)> = warm.map(|(at, it)| (*at, (quantity.of)(it))).collect();
        if warm.last()?.0 - warm.first()?.0 < LONG {
            return None;
        }
        let third = warm.len().div_ceil(3);
        let middle = |part: &[(f64, f64)]| median(&part.iter().map(|point| point.1).collect::<Vec<_>>());
        Some(Growth {
            first: middle(&warm[..third])?,
            last: middle(&warm[warm.len() - third..])?,
            an_hour: slope(&warm) * 3_600.0,
        })
    }
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let products = points.iter().map(|point| (point.0 - x) * (point.1 - y));
    let squares = points.iter().map(|point| (point.0 - x).powi(2));
    products.sum::<f64>() / squares.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a process whose memory grows by 10 MB when it starts, and then by `an_hour`.
    fn life(an_hour: f64, seconds: u32) -> Life {
        let sample = |at: u32| {
            let at = f64::from(at);
            let rss_mb = if at < 60.0 { 20.0 } else { 30.0 + an_hour * at / 3_600.0 };
            let process =
                Process { pid: 7, age: at, rss_mb, descriptors: 19, threads: 4, ..Process::default() };
            Sample { at, replicas: vec![process], ..Sample::default() }
        };
        Life::all(&(0..=seconds).step_by(10).map(sample).collect::<Vec<_>>()).remove(0)
    }

    #[test]
    fn growth_is_that_after_the_caches_have_filled() {
        let [memory, descriptors, _] = &QUANTITIES;
        let steady = life(0.0, 3_600).growth(memory).unwrap();
        assert_eq!((steady.first, steady.last), (30.0, 30.0));
        assert!(!steady.is_leak(memory));
        let growth = life(60.0, 3_600).growth(memory).unwrap();
        assert!((growth.an_hour - 60.0).abs() < 0.1, "{growth:?}");
        assert!(growth.is_leak(memory) && growth.last > growth.first + 35.0, "{growth:?}");
        assert!(!life(60.0, 3_600).growth(descriptors).unwrap().is_leak(descriptors));
        let some = life(15.0, 3_600).growth(memory).unwrap();
        assert!(!some.is_leak(memory), "an allocator keeps some pages: {some:?}");
    }

    #[test]
    fn a_short_life_shows_no_growth() {
        assert_eq!(life(60.0, 600).growth(&QUANTITIES[0]), None);
        assert!(life(60.0, 720).growth(&QUANTITIES[0]).is_some());
    }

    #[test]
    fn each_process_has_a_life() {
        let process = |replica, pid| Process { replica, pid, cpu_s: 0.5, age: 3.0, ..Process::default() };
        let sample = |replicas| Sample { replicas, ..Sample::default() };
        let lives = Life::all(&[
            sample(vec![process(0, 1), process(1, 2)]),
            sample(vec![process(0, 3), process(1, 2)]),
        ]);
        assert_eq!(lives.iter().map(|life| life.replica).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(lives.iter().map(Life::cpu).sum::<f64>(), 1.5);
    }
}
