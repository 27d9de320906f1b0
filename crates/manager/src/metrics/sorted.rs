//! Sorts a metrics page.
//!
//! The exporter keeps metrics in randomly hashed maps, so the order differs from process to process
//! and from scrape to scrape. Upstream's client_golang sorts them.

use std::collections::BTreeMap;

/// Sorts a page in Prometheus' text format: metrics by name, and the samples of each by their
/// labels. The samples of one histogram keep their order. This leaves out samples that are NaN: the
/// exporter cannot forget a gauge whose object is gone.
pub(crate) fn sorted(page: &str) -> String {
    let mut metrics: BTreeMap<&str, Metric<'_>> = BTreeMap::new();
    let mut current: Option<&mut Metric<'_>> = None;
    for line in page.lines().filter(|line| !line.is_empty() && !line.ends_with(" NaN")) {
        let comment = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        match (comment, &mut current) {
            (Some(comment), _) => {
                let name = comment.split_once(' ').map_or(comment, |(name, _)| name);
                let metric = metrics.entry(name).or_default();
                metric.comments.push(line);
                current = Some(metric);
            }
            (None, Some(metric)) => metric.samples.entry(labels(line)).or_default().push(line),
            // The exporter writes a type before the first sample.
            (None, None) => {}
        }
    }
    let mut sorted = String::with_capacity(page.len());
    for metric in metrics.values() {
        for line in metric.comments.iter().chain(metric.samples.values().flatten()) {
            sorted.push_str(line);
            sorted.push('\n');
        }
        sorted.push('\n');
    }
    sorted
}

/// The lines of one metric.
#[derive(Default)]
struct Metric<'a> {
    comments: Vec<&'a str>,
    /// The samples by their labels, without the bound of a bucket.
    samples: BTreeMap<&'a str, Vec<&'a str>>,
}

/// Returns the labels of a sample, without the bound of a bucket. The exporter writes the bound
/// last.
fn labels(sample: &str) -> &str {
    // A value has no space, and no brace either.
    let series = sample.rsplit_once(' ').map_or(sample, |(series, _)| series);
    let Some((_, labels)) = series.split_once('{') else { return "" };
    let labels = labels.strip_suffix('}').unwrap_or(labels);
    match labels.rfind("le=\"") {
        Some(0) => "",
        Some(bound) if labels[..bound].ends_with(',') => &labels[..bound - 1],
        _ => labels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_sorted_by_name_and_samples_by_labels() {
        let page =
            "# HELP b Of b.\n# TYPE b counter\nb{x=\"2\"} 1\nb{x=\"1 }\"} 2\n\n# TYPE a gauge\na 3\n\n";
        insta::assert_snapshot!(sorted(page), @r#"
        # TYPE a gauge
        a 3

        # HELP b Of b.
        # TYPE b counter
        b{x="1 }"} 2
        b{x="2"} 1
        "#);
    }

    #[test]
    fn buckets_keep_their_order() {
        let page = "# TYPE h histogram\n\
            h_bucket{q=\"b\",le=\"5\"} 1\nh_bucket{q=\"b\",le=\"10\"} 2\nh_bucket{q=\"b\",le=\"+Inf\"} 2\nh_sum{q=\"b\"} 9\nh_count{q=\"b\"} 2\n\
            h_bucket{q=\"a\",le=\"5\"} 0\nh_bucket{q=\"a\",le=\"10\"} 1\nh_bucket{q=\"a\",le=\"+Inf\"} 1\nh_sum{q=\"a\"} 7\nh_count{q=\"a\"} 1\n\n\
            # TYPE g histogram\ng_bucket{le=\"1\"} 0\ng_bucket{le=\"+Inf\"} 1\ng_sum 3\ng_count 1\n\n";
        insta::assert_snapshot!(sorted(page), @r#"
        # TYPE g histogram
        g_bucket{le="1"} 0
        g_bucket{le="+Inf"} 1
        g_sum 3
        g_count 1

        # TYPE h histogram
        h_bucket{q="a",le="5"} 0
        h_bucket{q="a",le="10"} 1
        h_bucket{q="a",le="+Inf"} 1
        h_sum{q="a"} 7
        h_count{q="a"} 1
        h_bucket{q="b",le="5"} 1
        h_bucket{q="b",le="10"} 2
        h_bucket{q="b",le="+Inf"} 2
        h_sum{q="b"} 9
        h_count{q="b"} 2
        "#);
    }

    #[test]
    fn a_sample_that_is_no_number_is_left_out() {
        let page = "# TYPE a gauge\na{x=\"1\"} NaN\na{x=\"2\"} +Inf\n\n";
        insta::assert_snapshot!(sorted(page), @r#"
        # TYPE a gauge
        a{x="2"} +Inf
        "#);
    }

    #[test]
    fn sorting_loses_nothing() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        ::metrics::with_local_recorder(&recorder, || {
            for number in 0..40 {
                ::metrics::counter!(format!("counter_{number}"), "n" => number.to_string()).increment(1);
                ::metrics::gauge!("gauge", "n" => number.to_string()).set(1.0);
                ::metrics::histogram!(format!("summary_{number}")).record(1.0);
            }
        });
        let page = recorder.handle().render();
        let lines = |page: &str| {
            let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let once = sorted(&page);
        assert_eq!(lines(&once), lines(&page));
        assert_eq!(sorted(&once), once);
        assert_eq!(sorted(&recorder.handle().render()), once);
    }
}
