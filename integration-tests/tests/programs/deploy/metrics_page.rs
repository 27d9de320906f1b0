//! Reads a metrics page: the names of its series, and the values of their labels.

use std::collections::{BTreeMap, BTreeSet};

/// The values of the labels of one series name.
pub(crate) type Labels = BTreeMap<String, BTreeSet<String>>;

/// The names of the series on a metrics page (those of histograms end in `_bucket`, `_sum` and
/// `_count`) with their labels.
#[derive(Debug)]
pub(crate) struct MetricsPage {
    pub(crate) series: BTreeMap<String, Labels>,
    /// The names in the TYPE lines: one for each metric.
    pub(crate) metrics: BTreeSet<String>,
}

impl MetricsPage {
    pub(crate) fn parse(page: &str) -> Self {
        let mut series: BTreeMap<String, Labels> = BTreeMap::new();
        let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let metrics = types.map(str::to_owned).collect();
        for (name, labels, _) in samples(page) {
            let all = series.entry(name.to_owned()).or_default();
            for (label, value) in labels {
                all.entry(label.to_owned()).or_default().insert(value.to_owned());
            }
        }
        Self { series, metrics }
    }
}

/// Returns the name, the labels and the value of each series.
pub(crate) fn samples(page: &str) -> impl Iterator<Item = (&str, Vec<(&str, &str)>, f64)> {
    page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        let (key, value) = line.rsplit_once(' ').unwrap();
        let (name, text) = key.split_once('{').unwrap_or((key, ""));
        // No label of ours has a value with a comma or an escaped character.
        let labels = text.trim_end_matches('}').split(',').filter_map(|it| it.split_once('='));
        let labels = labels.map(|(label, value)| (label, value.trim_matches('"')));
        (name, labels.collect(), value.parse().unwrap())
    })
}
