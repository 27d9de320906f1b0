//! The two types of time in objects: `metav1.Time`, truncated to seconds, and `metav1.MicroTime`.

use jiff::Timestamp;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Parses a `metav1.Time` and returns its canonical form. The error is Go's.
pub(crate) fn seconds(text: &str) -> Result<String, String> {
    if is_rfc3339(text)
        && let Ok(time) = text.parse::<Timestamp>()
    {
        return Ok(print_seconds(time));
    }
    Err(format!("parsing time {text:?} as {SECONDS:?}: cannot parse {text:?} as \"2006\""))
}

/// Parses a `metav1.MicroTime`, which must have six fractional digits, and returns its canonical
/// form.
pub(crate) fn micros(text: &str) -> Result<String, String> {
    if is_rfc3339(text) {
        let fraction = &text[19..];
        let digits = fraction.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        if fraction.starts_with('.') && digits == 6 {
            if let Ok(time) = text.parse::<Timestamp>() {
                return Ok(format!("{time:.6}"));
            }
        } else {
            return Err(format!(
                "parsing time {text:?} as {MICROSECONDS:?}: cannot parse {fraction:?} as \".000000\""
            ));
        }
    }
    Err(format!("parsing time {text:?} as {MICROSECONDS:?}: cannot parse {text:?} as \"2006\""))
}

/// Returns a time as `metav1.Time` prints it: whole seconds, UTC.
pub(crate) fn print_seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// Returns true if the text has the syntax of RFC 3339; the parser checks the values.
fn is_rfc3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.is_ascii()
        && bytes.len() >= 20
        && bytes.iter().take(19).enumerate().all(|(i, b)| match i {
            4 | 7 => *b == b'-',
            10 => *b == b'T',
            13 | 16 => *b == b':',
            _ => b.is_ascii_digit(),
        })
        && (bytes.ends_with(b"Z") || bytes.len() >= 25 && matches!(bytes[bytes.len() - 6], b'+' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_seconds_in_utc() {
        assert_eq!(seconds("2024-02-03T04:05:06Z").as_deref(), Ok("2024-02-03T04:05:06Z"));
        assert_eq!(seconds("2024-02-03T04:05:06.999Z").as_deref(), Ok("2024-02-03T04:05:06Z"));
        assert_eq!(seconds("2024-02-03T04:05:06+02:00").as_deref(), Ok("2024-02-03T02:05:06Z"));
        assert!(seconds("2024-02-03").is_err());
        assert!(seconds("2024-13-03T04:05:06Z").is_err());
        assert!(seconds("yesterday").unwrap_err().contains("cannot parse \"yesterday\" as \"2006\""));
    }

    #[test]
    fn micro_times_have_six_digits() {
        assert_eq!(micros("2024-02-03T04:05:06.000007Z").as_deref(), Ok("2024-02-03T04:05:06.000007Z"));
        assert_eq!(micros("2024-02-03T04:05:06.120000+02:00").as_deref(), Ok("2024-02-03T02:05:06.120000Z"));
        assert!(micros("2024-02-03T04:05:06Z").unwrap_err().ends_with("cannot parse \"Z\" as \".000000\""));
        assert!(micros("2024-02-03T04:05:06.1234567Z").is_err());
    }
}
