//! Parses and prints durations in the syntax of Go's `time.ParseDuration`: `500ms`, `1m30s`,
//! `1.5h`, `0`.

use std::time::Duration;

/// Parses a duration, which must not be negative. The error gives examples of valid values.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("{text:?} is not a duration; write one such as 500ms, 1s or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(invalid()),
        };
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| invalid())?;
        total = total.checked_add(part).ok_or_else(invalid)?;
        rest = next;
    }
    Ok(total)
}

/// Prints a duration so that [`parse`] reads it: `1h30m`, `12h`, `2.4s`, `500ms`, `0s`.
pub(crate) fn format(duration: Duration) -> String {
    if duration.is_zero() || duration.as_secs() == 0 {
        return if duration.is_zero() { "0s".to_owned() } else { format!("{duration:?}") };
    }
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let seconds = duration - Duration::from_secs((hours * 60 + minutes) * 60);
    let part = |number: u64, unit: &str| if number == 0 { String::new() } else { format!("{number}{unit}") };
    let seconds = if seconds.is_zero() { String::new() } else { format!("{seconds:?}") };
    part(hours, "h") + &part(minutes, "m") + &seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_durations_are_read_again() {
        let check = |milliseconds: u64, want: &str| {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(format(duration), want);
            assert_eq!(parse(want), Ok(duration));
        };
        check(0, "0s");
        check(500, "500ms");
        check(2400, "2.4s");
        check(60_000, "1m");
        check(90_500, "1m30.5s");
        check(60_000 + 500, "1m500ms");
        check(43_200_000, "12h");
    }

    #[test]
    fn durations_are_parsed_as_in_go() {
        let check = |text: &str, want: Option<u64>| {
            assert_eq!(parse(text).ok(), want.map(Duration::from_millis), "{text}");
        };
        check("0", Some(0));
        check("0s", Some(0));
        check("500ms", Some(500));
        check("1m30s", Some(90_000));
        check("1.5h", Some(5_400_000));
        check("2000us", Some(2));
        check("", None);
        check("5", None);
        check("-1s", None);
        check("1d", None);
        check("s", None);
        check("1..5s", None);
        check("1s x", None);
    }
}
