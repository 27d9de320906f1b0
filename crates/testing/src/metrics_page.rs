//! Reads a page of metrics in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt;

/// A page of metrics in Prometheus' text format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsPage(String);

/// One sample of a page.
struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl MetricsPage {
    /// Returns a page with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text of the page.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the value of the one sample of this name that carries all these labels, or `None`
    /// when there is no such sample.
    ///
    /// # Panics
    ///
    /// If there is more than one.
    #[track_caller]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut values = self.matching(name, labels).map(|sample| sample.value);
        let value = values.next();
        assert!(values.next().is_none(), "more than one sample of {name} carries {labels:?}");
        value
    }

    /// Returns the sum of all samples of this name that carry all these labels, or zero if there
    /// are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // The sum of no numbers is -0.0.
        self.matching(name, labels).map(|sample| sample.value).fold(0.0, |sum, value| sum + value)
    }

    /// Returns the page without the families whose names start with a prefix.
    pub fn without(&self, prefix: &str) -> Self {
        let family = |line: &str| {
            let rest = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
            rest.starts_with(prefix)
        };
        let lines: Vec<&str> = self.0.lines().filter(|line| !family(line)).collect();
        Self(lines.join("\n"))
    }

    /// Returns the page in a form for snapshots: families sorted by name, one line for each series.
    /// A histogram has its bounds in one line and the counts of its buckets in another; the summary
    /// leaves out series without observations. Durations that the workqueue measures depend on the
    /// machine: `_` stands for them.
    pub fn summary(&self) -> String {
        let mut families: Vec<String> = self.0.split("\n\n").filter_map(family_summary).collect();
        families.sort_by_key(|family| family.split(' ').nth(2).unwrap_or_default().to_owned());
        families.join("\n\n")
    }

    fn matching<'a>(&'a self, name: &'a str, labels: &'a [(&str, &str)]) -> impl Iterator<Item = Sample<'a>> {
        self.0.lines().filter_map(sample).filter(move |sample| {
            let carries = |(key, value): &(&str, &str)| {
                let wanted = (*key, escaped(value));
                pairs(sample.labels).any(|(key, value)| (key, value) == (wanted.0, wanted.1.as_str()))
            };
            sample.name == name && labels.iter().all(carries)
        })
    }
}

impl fmt::Display for MetricsPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn family_summary(family: &str) -> Option<String> {
    let (comments, samples): (Vec<&str>, Vec<&str>) =
        family.trim().lines().partition(|line| line.starts_with('#'));
    let name = comments.first()?.split(' ').nth(2)?;
    let is_measured = name.starts_with("workqueue_") && name.ends_with("_seconds");
    let mut bounds = Vec::new();
    let mut series: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for sample in samples {
        let (key, value) = sample.rsplit_once(' ')?;
        let (suffix, labels) = key.strip_prefix(name)?.split_once('{').unwrap_or((&key[name.len()..], ""));
        let mut labels: Vec<(&str, &str)> = pairs(labels).collect();
        let bound = labels.pop_if(|(label, _)| *label == "le");
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let line = series.entry(labels.join(",")).or_default();
        let value = if is_measured { "_" } else { value };
        match (suffix, bound) {
            ("_bucket", Some((_, bound))) => {
                if !bounds.contains(&bound) {
                    bounds.push(bound);
                }
                line.push(value.to_owned());
            }
            ("_sum", None) => line.push(format!("sum {value}")),
            // The count of the last bucket is the same.
            ("_count", None) => {}
            ("", None) => line.push(value.to_owned()),
            _ => return Some(format!("cannot be read: {sample}")),
        }
    }
    let mut lines: Vec<String> = comments.into_iter().map(str::to_owned).collect();
    if !bounds.is_empty() {
        lines.push(format!("buckets: {}", bounds.join(" ")));
        series.retain(|_, values| values.iter().any(|value| !matches!(&**value, "0" | "sum 0")));
    }
    lines.extend(series.into_iter().map(|(labels, values)| format!("{{{labels}}} {}", values.join(" "))));
    Some(lines.join("\n"))
}

fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    Some(Sample { name, labels, value })
}

/// Names and values of labels; values include their escapes.
fn pairs(mut labels: &str) -> impl Iterator<Item = (&str, &str)> {
    std::iter::from_fn(move || {
        let (key, rest) = labels.trim_start_matches(',').split_once("=\"")?;
        let mut escape = false;
        let end = rest.bytes().position(|byte| match byte {
            b'"' if !escape => true,
            byte => {
                escape = byte == b'\\' && !escape;
                false
            }
        })?;
        labels = &rest[end + 1..];
        Some((key, &rest[..end]))
    })
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> MetricsPage {
        MetricsPage::new(
            "# HELP syncs How often.\n# TYPE syncs counter\nsyncs{result=\"ok\",queue=\"a\"} 3\n\
             syncs{result=\"error, again\",queue=\"a\\\"b\"} 1\nsyncs_total 9\ndepth 0\nlag NaN\n",
        )
    }

    #[test]
    fn values_are_found_by_name_and_labels() {
        let check = |name: &str, labels: &[(&str, &str)], want: Option<f64>| {
            assert_eq!(page().value(name, labels), want, "{name} {labels:?}");
        };
        check("syncs", &[("result", "ok")], Some(3.0));
        check("syncs", &[("result", "ok"), ("queue", "a")], Some(3.0));
        check("syncs", &[("result", "ok"), ("queue", "b")], None);
        check("syncs", &[("result", "error, again")], Some(1.0));
        check("syncs", &[("queue", "a\"b")], Some(1.0));
        check("syncs_total", &[], Some(9.0));
        check("depth", &[], Some(0.0));
        check("depth", &[("queue", "a")], None);
        check("absent", &[], None);
    }

    #[test]
    fn sums_are_over_all_samples_that_match() {
        assert_eq!(page().sum("syncs", &[]), 4.0);
        assert_eq!(page().sum("syncs", &[("queue", "a")]), 3.0);
        assert!(page().sum("absent", &[]).is_sign_positive());
    }

    #[test]
    fn a_summary_folds_histograms_and_sorts_families() {
        let page = MetricsPage::new(
            "# HELP size Endpoints.\n# TYPE size histogram\nsize_bucket{a=\"x\",le=\"1\"} 0\n\
             size_bucket{a=\"x\",le=\"+Inf\"} 2\nsize_sum{a=\"x\"} 9\nsize_count{a=\"x\"} 2\n\
             size_bucket{a=\"y\",le=\"1\"} 0\nsize_bucket{a=\"y\",le=\"+Inf\"} 0\nsize_sum{a=\"y\"} 0\nsize_count{a=\"y\"} 0\n\n\
             # TYPE adds counter\nadds 3\n\n",
        );
        assert_eq!(page.without("size").summary(), "# TYPE adds counter\n{} 3");
        insta::assert_snapshot!(page.summary(), @r#"
        # TYPE adds counter
        {} 3

        # HELP size Endpoints.
        # TYPE size histogram
        buckets: 1 +Inf
        {a="x"} 0 2 sum 9
        "#);
    }

    #[test]
    #[should_panic(expected = "more than one sample of syncs")]
    fn a_value_with_several_samples_panics() {
        page().value("syncs", &[]);
    }
}
