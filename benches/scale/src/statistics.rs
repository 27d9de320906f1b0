//! Computes percentiles, medians and ratios.

/// Returns the value below which a part of the values lies, by nearest rank, or `None` without
/// values.
pub(crate) fn percentile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).floor() as usize;
    sorted.get(rank.min(sorted.len().saturating_sub(1))).copied()
}

/// Returns the middle value, or the mean of the two middle ones.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len().is_multiple_of(2) {
        Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
    } else {
        Some(upper)
    }
}

/// Formats a ratio: as `1/8.3` if the first figure is clearly lower, otherwise with two digits.
/// Returns an empty text if there is no ratio.
pub(crate) fn ratio(first: f64, second: f64) -> String {
    let ratio = first / second;
    if !ratio.is_finite() || ratio == 0.0 {
        String::new()
    } else if ratio < 0.8 {
        format!("1/{:.1}", 1.0 / ratio)
    } else {
        format!("{ratio:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_by_rank() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let check = |part, want| assert_eq!(percentile(&values, part), Some(want), "{part}");
        check(0.0, 1.0);
        check(0.5, 51.0);
        check(0.9, 91.0);
        check(0.99, 100.0);
        check(1.0, 100.0);
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn medians() {
        let check = |values: &[f64], want| assert_eq!(median(values), want, "{values:?}");
        check(&[], None);
        check(&[3.0], Some(3.0));
        check(&[9.0, 1.0], Some(5.0));
        check(&[9.0, 1.0, 2.0], Some(2.0));
    }

    #[test]
    fn ratios_below_four_fifths_are_fractions() {
        let check = |first, second, want: &str| assert_eq!(ratio(first, second), want, "{first} / {second}");
        check(0.65, 5.4, "1/8.3");
        check(0.79, 1.0, "1/1.3");
        check(0.8, 1.0, "0.80");
        check(1.1, 1.0, "1.10");
        check(30.0, 2.0, "15.00");
        check(1.0, 0.0, "");
        check(0.0, 1.0, "");
    }
}
