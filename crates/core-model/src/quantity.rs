//! Resource quantities of CPU.

/// Parses a quantity such as `4`, `3920m`, `1.5`, `2e3` or `1Ki` in billionths of a unit, rounded
/// up. Returns `None` if the text is not a quantity, or has more than 18 digits before or after the
/// point. If the result is too large, this returns the largest number.
pub(crate) fn parse_nano(text: &str) -> Option<i64> {
    const UNIT: i128 = 1_000_000_000;
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 || whole.len() > 18 {
        return None;
    }
    let scale = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parse =
        |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok().map(i128::from) };
    let value = parse(whole)? * scale + parse(fraction)?;
    let (up, down): (i128, i128) = match suffix {
        "" => (UNIT, 1),
        "n" => (1, 1),
        "u" => (1_000, 1),
        "m" => (1_000_000, 1),
        "k" => (UNIT * 1_000, 1),
        "M" => (UNIT * 1_000_000, 1),
        "G" => (UNIT * 10i128.pow(9), 1),
        "T" => (UNIT * 10i128.pow(12), 1),
        "P" => (UNIT * 10i128.pow(15), 1),
        "E" => (UNIT * 10i128.pow(18), 1),
        "Ki" => (UNIT << 10, 1),
        "Mi" => (UNIT << 20, 1),
        "Gi" => (UNIT << 30, 1),
        "Ti" => (UNIT << 40, 1),
        "Pi" => (UNIT << 50, 1),
        "Ei" => (UNIT << 60, 1),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10i128.checked_pow(exponent.unsigned_abs().min(30))?;
            if exponent < 0 { (UNIT, power) } else { (UNIT.saturating_mul(power), 1) }
        }
    };
    let divisor = scale.checked_mul(down)?;
    let nano = value.saturating_mul(up).saturating_add(divisor - 1) / divisor;
    let nano = i64::try_from(nano).unwrap_or(i64::MAX);
    Some(if negative { -nano } else { nano })
}

#[cfg(test)]
mod tests {
    use super::parse_nano;

    #[test]
    fn reads_quantities() {
        let check = |text: &str, want: Option<i64>| assert_eq!(parse_nano(text), want, "{text}");
        check("4", Some(4_000_000_000));
        check("3920m", Some(3_920_000_000));
        check("1.5", Some(1_500_000_000));
        check("0.1m", Some(100_000));
        check("2e3", Some(2_000_000_000_000));
        check("15e-1", Some(1_500_000_000));
        check("1Ki", Some(1_024_000_000_000));
        check("100u", Some(100_000));
        check("1n", Some(1));
        check("0.1n", Some(1));
        check("0", Some(0));
        check("-1", Some(-1_000_000_000));
        check("", None);
        check("cpu", None);
        check("1x", None);
        check("1.2.3", None);
        check("99999999999999999999", None);
        for large in ["999999999999999999G", "3T", "1Ti", "1P", "1Pi", "1E", "7Ei", "1e20", "1e30", "1e99"] {
            check(large, Some(i64::MAX));
        }
        check("-1E", Some(-i64::MAX));
        check("0.001T", Some(1_000_000_000_000_000_000));
    }
}
