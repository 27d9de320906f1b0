//! Tells mistyped names from different ones.
//!
//! Names of programs, roles, versions and ports are often similar on purpose: `web` and
//! `web-worker`, `internal` and `external`, `v1` and `v2`, `cache-a` and `cache-b`, `eu-west` and
//! `eu-east`, `http` and `https`. To take one for the other does harm, so this calls only small
//! slips a typo.

/// The smallest number of letters in which one wrong, missing or additional letter is a typo.
const LETTERS: usize = 4;

/// The smallest number of letters of a word in which two slips are a typo.
const LETTERS_OF_TWO_SLIPS: usize = 8;

/// Returns true if one of two different names is likely a mistyped form of the other. They differ
/// in one word only: by upper and lower case, by two letters in the wrong order, by one letter of a
/// word of at least four, or by two slips inside of a long word. Digits and single letters number
/// things, a final `s` means many or TLS, and few slips are in the first letter.
pub(crate) fn is_typo(one: &str, other: &str) -> bool {
    if one == other {
        return false;
    }
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    if one == other {
        return true;
    }
    let words = |text: &str| -> Vec<Vec<char>> {
        text.split(|c: char| !c.is_alphanumeric()).map(|word| word.chars().collect()).collect()
    };
    let (one, other) = (words(&one), words(&other));
    if one.len() != other.len() {
        return false;
    }
    let mut differing = one.iter().zip(&other).filter(|(one, other)| one != other);
    match (differing.next(), differing.next()) {
        // They differ in a separator only.
        (None, _) => true,
        (Some((one, other)), None) => is_mistyped(one, other),
        (Some(_), Some(_)) => false,
    }
}

fn is_mistyped(one: &[char], other: &[char]) -> bool {
    let digits = |word: &[char]| word.iter().copied().filter(char::is_ascii_digit).collect::<String>();
    let shorter = one.len().min(other.len());
    if shorter == 0 || one.len().abs_diff(other.len()) > 2 || digits(one) != digits(other) {
        return false;
    }
    let is_swap = one.len() == other.len() && {
        let mut at = (0..one.len()).filter(|at| one.get(*at) != other.get(*at));
        let (first, second) = (at.next(), at.next());
        let letters =
            |word: &[char]| first.zip(second).map(|(a, b)| (word.get(a).copied(), word.get(b).copied()));
        let is_pair = first.zip(second).is_some_and(|(a, b)| b == a + 1) && at.next().is_none();
        is_pair && letters(one) == letters(other).map(|(a, b)| (b, a))
    };
    if is_swap {
        return true;
    }
    if one.first() != other.first() || is_plural(one, other) || is_plural(other, one) {
        return false;
    }
    match strsim::levenshtein(&String::from_iter(one), &String::from_iter(other)) {
        1 => shorter >= LETTERS,
        2 => shorter >= LETTERS_OF_TWO_SLIPS && one.last() == other.last(),
        _ => false,
    }
}

fn is_plural(one: &[char], other: &[char]) -> bool {
    other.split_last().is_some_and(|(last, rest)| *last == 's' && rest == one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_typos_and_other_names_are_not() {
        for (one, other, want) in [
            ("web", "wbe", true),
            ("web", "Web", true),
            ("frontend", "frontned", true),
            ("payments", "paymens", true),
            ("payments", "paymetns", true),
            ("web-server", "wbe-server", true),
            ("web-server", "web_server", true),
            ("htpp", "http", true),
            ("checkout-service", "checkotu-service", true),
            ("recommendation", "recomendaton", true),
            ("web", "web", false),
            ("web", "", false),
            ("web", "api", false),
            ("web", "web-worker", false),
            ("web", "web2", false),
            ("front", "frontend", false),
            ("leader", "follower", false),
            ("primary", "replica", false),
            ("active", "inactive", false),
            ("v1", "v2", false),
            ("shard-0", "shard-1", false),
            ("worker10", "worker01", false),
            ("cache-a", "cache-b", false),
            ("eu-west", "eu-east", false),
            ("blue", "green", false),
            ("http", "https", false),
            ("order", "orders", false),
            ("internal", "external", false),
            ("importer", "exporter", false),
            ("transform", "transport", false),
            ("true", "false", false),
            ("dev", "rev", false),
        ] {
            assert_eq!(is_typo(one, other), want, "{one} {other}");
            assert_eq!(is_typo(other, one), want, "{other} {one}");
        }
    }
}
