//! The curves of a soak.

use super::record::{Line, Process, Sample};
use crate::plot::{self, Chart};
use crate::statistics::percentile;

/// How many points a line has at most.
const POINTS: usize = 240;

/// Returns the charts of the lines of a file.
pub(crate) fn of(lines: &[Line]) -> Vec<Chart> {
    let samples: Vec<&Sample> = lines
        .iter()
        .filter_map(|line| if let Line::Sample(sample) = line { Some(sample) } else { None })
        .collect();
    let buckets: Vec<&[&Sample]> = samples.chunks(samples.len().div_ceil(POINTS).max(1)).collect();
    let end = samples.last().map_or(0.0, |sample| sample.at);
    let (unit, seconds) = if end > 7_200.0 { ("hours", 3_600.0) } else { ("minutes", 60.0) };
    let line = |name: &str, of: &dyn Fn(&[&Sample]) -> Option<f64>| {
        let point = |bucket: &&[&Sample]| Some((bucket.last()?.at / seconds, of(bucket)?));
        plot::Line { name: name.into(), points: buckets.iter().filter_map(point).collect() }
    };
    let chart = |name: &str, title: &str, y: &str, lines: Vec<plot::Line>| Chart {
        name: name.into(),
        title: title.into(),
        x: unit.into(),
        x_is_linear: true,
        y: y.into(),
        y_is_logarithmic: name == "soak-latency",
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
    };
    let replicas = |of: fn(&Process) -> f64| {
        let largest = move |bucket: &[&Sample], replica| {
            let processes = bucket.iter().flat_map(|sample| &sample.replicas);
            processes.filter(|it| it.replica == replica).map(of).reduce(f64::max)
        };
        (0..super::REPLICAS)
            .map(|replica| line(&format!("replica {replica}"), &|bucket| largest(bucket, replica)))
            .collect()
    };
    let latency = |part| {
        move |bucket: &[&Sample]| {
            let all: Vec<f64> =
                bucket.iter().flat_map(|it| it.calm_ms.iter().chain(&it.disturbed_ms)).copied().collect();
            percentile(&all, part)
        }
    };
    let charts = vec![
        chart("soak-memory", "Resident memory of each replica", "MB", replicas(|it| it.rss_mb)),
        chart(
            "soak-descriptors",
            "Open file descriptors of each replica",
            "descriptors",
            replicas(|it| it.descriptors as f64),
        ),
        chart(
            "soak-latency",
            "From a change of a pod to the slice that shows it",
            "milliseconds",
            vec![
                line("maximum", &latency(1.0)),
                line("99th percentile", &latency(0.99)),
                line("median", &latency(0.5)),
            ],
        ),
    ];
    charts.into_iter().filter(|chart| !chart.lines.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::tests::lines;

    #[test]
    fn lines_have_few_points_and_show_the_largest_value() {
        let charts = of(&lines());
        let shape = |chart: &Chart| (chart.name.clone(), chart.x.clone(), chart.lines.len());
        let want = [("soak-memory", 2), ("soak-descriptors", 2), ("soak-latency", 3)];
        let want = want.map(|(name, count)| (name.to_owned(), "minutes".to_owned(), count));
        assert_eq!(charts.iter().map(shape).collect::<Vec<_>>(), want);
        let last = |chart: usize, line: usize| *charts[chart].lines[line].points.last().unwrap();
        assert_eq!(last(0, 1), (40.0, 31.0));
        assert_eq!((last(2, 0), last(2, 2)), ((40.0, 30.0), (40.0, 30.0)));
        let longest: Vec<Line> = std::iter::repeat_n(lines(), 7).flatten().collect();
        let charts = of(&longest);
        assert_eq!(charts[0].lines[0].points.len(), POINTS);
        let largest = charts[2].lines[0].points.iter().map(|point| point.1).fold(0.0, f64::max);
        assert_eq!(largest, 9_000.0);
    }
}
