//! Finds the name that somebody meant with a misspelt one.

/// Returns the known name that is closest to a misspelt one: it needs the fewest insertions,
/// removals and replacements of letters. They may be a third of the misspelt letters, or one.
pub(crate) fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let letters = name.chars().count();
    let most = (letters / 3).max(1).min(letters.saturating_sub(1));
    let distances = known.into_iter().map(|known| (strsim::levenshtein(&name, &known.to_lowercase()), known));
    distances
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_found() {
        let check = |name: &str, want: Option<&str>| {
            assert_eq!(similar(name, ["leaderElect", "leaderElectIdentity", "v", "dryRun"]), want, "{name}");
        };
        check("leaderElect", Some("leaderElect"));
        check("leaderelekt", Some("leaderElect"));
        check("leadrElectIdentiti", Some("leaderElectIdentity"));
        check("dry-run", Some("dryRun"));
        check("vv", Some("v"));
        check("", None);
        check("w", None);
        check("controllers", None);
    }
}
