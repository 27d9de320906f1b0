//! Reading a page of metrics in Prometheus' text format.

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
    /// A page with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the page.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of the one sample of this name that carries all these labels; none when there is no such sample.
    ///
    /// # Panics
    ///
    /// When there is more than one.
    #[track_caller]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut values = self.matching(name, labels).map(|sample| sample.value);
        let value = values.next();
        assert!(values.next().is_none(), "more than one sample of {name} carries {labels:?}");
        value
    }

    /// The sum of all samples of this name that carry all these labels; zero when there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // The sum of no numbers is -0.0.
        self.matching(name, labels).map(|sample| sample.value).fold(0.0, |sum, value| sum + value)
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

/// Names and values of labels; values as they are written, escapes included.
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
    #[should_panic(expected = "more than one sample of syncs")]
    fn a_value_that_is_not_the_only_one_is_a_mistake() {
        page().value("syncs", &[]);
    }
}
