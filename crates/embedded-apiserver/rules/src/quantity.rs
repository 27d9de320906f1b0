//! Resource quantities (`500m`, `1Gi`, `1e3`) in the canonical form in which the real server prints them, after
//! `resource.Quantity` of apimachinery.

/// The family of suffixes in which a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `k`, `M`, `G` and `m`, `u`, `n`.
    Decimal,
    /// `e3`.
    Exponent,
    /// `Ki`, `Mi`, `Gi`.
    Binary,
}

/// An amount in billionths and the format in which it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    nano: i128,
    format: Format,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Parses a quantity; None if it is malformed. Fractions of a billionth are rounded up, away from zero.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (format, exponent, factor) = interpret(suffix)?;
        let mut nano: i128 = 0;
        let scale = 9 + exponent;
        let mut rest = false;
        let digits = whole.bytes().chain(fraction.bytes());
        // Digits beyond billionths only determine whether to round up.
        let kept = i32::try_from(whole.len()).ok()? + scale;
        for (position, digit) in digits.enumerate() {
            if i32::try_from(position).ok()? < kept {
                nano = nano.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
            } else {
                rest |= digit != b'0';
            }
        }
        let missing = kept - i32::try_from(whole.len() + fraction.len()).ok()?;
        for _ in 0..missing.max(0) {
            nano = nano.checked_mul(10)?;
        }
        nano = nano.checked_mul(factor)?;
        if rest {
            nano += 1;
        }
        Some(Self { nano: if negative { -nano } else { nano }, format })
    }

    /// The amount rounded up to thousandths, as the real server does for lists of resources.
    pub(crate) fn round_up_to_milli(self) -> Self {
        let milli = NANO / 1000;
        let extra = self.nano.rem_euclid(milli);
        let nano = match extra {
            0 => self.nano,
            _ if self.nano < 0 => self.nano - extra,
            _ => self.nano - extra + milli,
        };
        Self { nano, ..self }
    }

    /// Whether the amount is below zero.
    pub(crate) fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether the amount is a whole number.
    pub(crate) fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// The amount in billionths, independent of the format.
    pub(crate) fn amount(self) -> i128 {
        self.nano
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        if self.format == Format::Binary && self.is_whole() && self.nano.abs() >= 1024 * NANO {
            let mut number = self.nano / NANO;
            let mut step = 0;
            while number % 1024 == 0 && step + 1 < BINARY.len() {
                number /= 1024;
                step += 1;
            }
            return write!(f, "{number}{}", BINARY[step]);
        }
        let mut number = self.nano;
        let mut step = 0;
        while number % 1000 == 0 && step + 1 < DECIMAL.len() {
            number /= 1000;
            step += 1;
        }
        let (suffix, exponent) = DECIMAL[step];
        match self.format {
            Format::Exponent if exponent != 0 => write!(f, "{number}e{exponent}"),
            _ => write!(f, "{number}{suffix}"),
        }
    }
}

/// The format of a suffix, its power of ten, and its power of two as a factor.
fn interpret(suffix: &str) -> Option<(Format, i32, i128)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((Format::Decimal, *exponent, 1));
    }
    if let Some(step) = BINARY.iter().position(|s| *s == suffix) {
        return Some((Format::Binary, 0, 1 << (10 * step)));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (-30..=18).contains(&exponent).then_some((Format::Exponent, exponent, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Option<String> {
        Quantity::parse(text).map(|q| q.to_string())
    }

    #[test]
    fn canonical_forms() {
        for (given, want) in [
            ("0", "0"),
            ("0.0", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("100m", "100m"),
            ("1500m", "1500m"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("512", "512"),
            ("1000", "1k"),
            ("1000Ki", "1000Ki"),
            ("0.5Gi", "512Mi"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("-1.5", "-1500m"),
            ("0.0000000001", "1n"),
            ("5Ki", "5Ki"),
            ("0.5Ki", "512"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(want), "{given}");
        }
        for bad in ["", "x", "1x", "1.2.3", "--1", "1ki", "Ki", "1e", "1 "] {
            assert_eq!(canonical(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn rounding_goes_up_to_thousandths() {
        let rounded = |text| Quantity::parse(text).unwrap().round_up_to_milli().to_string();
        assert_eq!(rounded("1100u"), "2m");
        assert_eq!(rounded("-1100u"), "-2m");
        assert_eq!(rounded("3m"), "3m");
    }
}
