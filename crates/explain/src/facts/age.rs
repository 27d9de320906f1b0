//! Ages, as kubectl prints them.

use kube_endpoint_core_model::Timestamp;

/// Formats a number of seconds with at most two units, such as `42s`, `5m10s`, `3h` or `12d`. A
/// negative number becomes `0s`.
pub fn seconds(seconds: i64) -> String {
    const UNITS: [(i64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "m")];
    const NEXT: [(i64, &str); 3] = [(3_600, "h"), (60, "m"), (1, "s")];
    let seconds = seconds.max(0);
    for ((unit, name), (next, next_name)) in UNITS.into_iter().zip(NEXT) {
        if seconds >= unit {
            let rest = seconds % unit / next;
            let rest =
                if rest > 0 && seconds / unit < 10 { format!("{rest}{next_name}") } else { String::new() };
            return format!("{}{name}{rest}", seconds / unit);
        }
    }
    format!("{seconds}s")
}

/// Returns the seconds from a point in time until `now`.
pub fn since(time: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(time).as_secs()
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn ages_have_at_most_two_units() {
        for (given, want) in [
            (-5, "0s"),
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (310, "5m10s"),
            (605, "10m"),
            (3_600, "1h"),
            (9_000, "2h30m"),
            (90_000, "1d1h"),
            (1_000_000, "11d"),
        ] {
            assert_eq!(seconds(given), want);
        }
    }
}
