//! Finds the names that somebody may have meant who asked for one that does not exist.

use strsim::levenshtein;

use super::is_typo;

/// The maximum number of names.
const NAMES: usize = 5;

/// The smallest number of letters that are the beginning of a name.
const BEGINNING: usize = 4;

/// The letters and digits of the random parts of names.
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Returns the names that are like another one, the most similar first: it is mistyped, or one of
/// the two begins with the words of the other, or one letter of three or four differs. Names of
/// pods are also alike if they only differ in what their controller added, so a pod that is gone
/// leads to those in its place.
pub fn nearest_names<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut near: Vec<(usize, &str)> =
        names.into_iter().filter_map(|name| Some((distance(wanted, name)?, name))).collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(NAMES).map(|(_, name)| name).collect()
}

/// Returns a small number for similar names, or `None` for different ones.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let continues =
        |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('-'));
    let (wanted_stem, stem) = (stem(wanted), stem(name));
    let is_generated = stem.len() < name.len();
    let found = [
        is_typo(wanted, name),
        is_generated && (stem == wanted_stem || stem == wanted),
        is_generated && (is_typo(stem, wanted_stem) || is_typo(stem, wanted)),
        continues(name, wanted) || continues(wanted, name),
        is_abbreviated(name, wanted) || is_abbreviated(wanted, name),
        is_one_letter_off(wanted, name),
        wanted.len() >= BEGINNING && name.starts_with(wanted),
    ];
    found.into_iter().position(|holds| holds && wanted != name)
}

/// Returns true if two names of three or four letters differ in one that is not the first.
fn is_one_letter_off(one: &str, other: &str) -> bool {
    let are_letters =
        |name: &str| (3..=4).contains(&name.len()) && name.bytes().all(|letter| letter.is_ascii_lowercase());
    are_letters(one) && are_letters(other) && one.get(..1) == other.get(..1) && levenshtein(one, other) == 1
}

/// Returns true if a name is another one with a shorter last word, as `legacy-db` is
/// `legacy-database`.
fn is_abbreviated(short: &str, long: &str) -> bool {
    let (Some((stem, short)), Some((same, long))) = (short.rsplit_once('-'), long.rsplit_once('-')) else {
        return false;
    };
    let mut letters = long.chars();
    let is_part = short.chars().all(|c| letters.any(|letter| letter == c));
    stem == same && short.len() > 1 && short.len() < long.len() && short.get(..1) == long.get(..1) && is_part
}

/// Returns the name without what a Deployment, StatefulSet, DaemonSet or Job adds to it for a pod.
pub(crate) fn stem(name: &str) -> &str {
    let is_random = |word: &str| word.chars().all(|c| RANDOM.contains(c));
    let Some((rest, last)) = name.rsplit_once('-') else { return name };
    match rest.rsplit_once('-') {
        Some((first, hash)) if last.len() == 5 && is_random(last) && is_hash(hash) => first,
        _ if last.len() == 5 && is_random(last) => rest,
        _ if !last.is_empty() && last.bytes().all(|c| c.is_ascii_digit()) => rest,
        _ => name,
    }
}

/// Returns true for the hash of a pod template.
fn is_hash(word: &str) -> bool {
    (6..=10).contains(&word.len()) && word.chars().all(|c| RANDOM.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wanted: &str, names: &[&str], want: &[&str]) {
        assert_eq!(nearest_names(wanted, names.iter().copied()), want, "{wanted}");
    }

    #[test]
    fn mistyped_names_come_before_longer_and_shorter_ones() {
        check("wbe", &["api", "web", "web-admin"], &["web"]);
        check("web", &["api", "web-worker", "wbe", "website", "web"], &["wbe", "web-worker"]);
        check("checkout-service", &["checkout", "check", "service"], &["checkout"]);
        check("v1", &["v2", "v3"], &[]);
        check("wep", &["web", "api", "www"], &["web"]);
        check("api", &["app", "abc", "spi", "ap1"], &["app"]);
        check("apii", &["api", "app", "ap", "capi"], &["api"]);
        check("front", &["frontend", "fr", "back"], &["frontend"]);
        check("fro", &["frontend"], &[]);
        check("none", &["web", "api"], &[]);
        check("legacy-db", &["legacy-database", "legacy-queue", "other-database"], &["legacy-database"]);
        check("a", &["a-1", "a-2", "a-3", "a-4", "a-5", "a-6"], &["a-1", "a-2", "a-3", "a-4", "a-5"]);
    }

    #[test]
    fn a_pod_that_is_gone_leads_to_those_in_its_place() {
        let pods = ["db-0", "db-1", "db-admin-7dfbff9db-gnqg8", "web-7dfbff9db-gnqg8", "web-7dfbff9db-r7j2v"];
        let web = ["web-7dfbff9db-gnqg8", "web-7dfbff9db-r7j2v"];
        check("web-5c8d7f6b9-zn9br", &pods, &web);
        check("web", &pods, &web);
        check("wbe", &pods, &web);
        check("wbe-7dfbff9db-gnqg8", &pods, &web);
        check("db-7", &pods, &["db-0", "db-1"]);
        check("agent-x7k2p", &["agent-zz4zz", "agents-zz4zz"], &["agent-zz4zz"]);
    }
}
