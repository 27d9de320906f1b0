//! Ages as kubectl prints them, after apimachinery's `util/duration`.

use jiff::{SignedDuration, Timestamp};

/// Returns the age of an RFC 3339 time, or `<unknown>` if it is absent or malformed.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    time.parse::<Timestamp>().map_or_else(|_| "<unknown>".to_owned(), |time| human(now.duration_since(time)))
}

/// Returns a duration in two or three significant figures.
pub(super) fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    if seconds < -1 {
        // Clocks may differ by a second; a larger difference is not an age.
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let years = days / 365;
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large}{large_unit}")
    } else {
        format!("{large}{large_unit}{small}{small_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_kubectl_prints_them() {
        let check = |seconds: i64, expected: &str| {
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        };
        const MINUTE: i64 = 60;
        const HOUR: i64 = 3600;
        const DAY: i64 = 86_400;
        check(-2, "<invalid>");
        check(-1, "0s");
        check(0, "0s");
        check(119, "119s");
        check(2 * MINUTE, "2m");
        check(2 * MINUTE + 1, "2m1s");
        check(10 * MINUTE - 1, "9m59s");
        check(10 * MINUTE + 30, "10m");
        check(3 * HOUR - 1, "179m");
        check(3 * HOUR, "3h");
        check(7 * HOUR + 59 * MINUTE, "7h59m");
        check(8 * HOUR + 5, "8h");
        check(2 * DAY - 1, "47h");
        check(2 * DAY, "2d");
        check(7 * DAY + 23 * HOUR, "7d23h");
        check(8 * DAY + HOUR, "8d");
        check(2 * 365 * DAY - 1, "729d");
        check(2 * 365 * DAY, "2y");
        check(3 * 365 * DAY + 4 * DAY, "3y4d");
        check(8 * 365 * DAY, "8y");
    }

    #[test]
    fn malformed_times_are_unknown() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(since("", now), "<unknown>");
        assert_eq!(since("yesterday", now), "<unknown>");
        assert_eq!(since("1969-12-31T23:59:00Z", now), "60s");
        assert_eq!(since("1969-12-31T23:58:59.500000Z", now), "60s");
    }
}
