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
        for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, _) = line.rsplit_once(' ').unwrap();
            let (name, labels) = key.split_once('{').unwrap_or((key, ""));
            let all = series.entry(name.to_owned()).or_default();
            // No label of ours has a value with a comma or an escaped character.
            for (label, value) in labels.trim_end_matches('}').split(',').filter_map(|it| it.split_once('='))
            {
                all.entry(label.to_owned()).or_default().insert(value.trim_matches('"').to_owned());
            }
        }
        Self { series, metrics }
    }
}
