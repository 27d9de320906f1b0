//! Parses durations in the syntax of Go's `time.ParseDuration`: `500ms`, `1m30s`, `1.5h`, `0`.

use std::time::Duration;

/// Parses a duration. Negative ones are refused. The error gives examples of valid values.
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

#[cfg(test)]
mod tests {
    use super::*;

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
