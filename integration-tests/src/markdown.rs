//! Reads pages in Markdown: headings and links, outside of blocks of code.

use std::collections::BTreeSet;

/// Returns the lines outside of blocks of code.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the anchor that GitHub and mdBook give to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the anchors of the headings of a page.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// Returns the targets of the links of a page, images included.
pub fn targets(page: &str) -> Vec<String> {
    let prose = prose(page);
    prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        assert_eq!(anchor("Take over, and go back"), "take-over-and-go-back");
        assert_eq!(anchor("`KubeX`: what?"), "kubex-what");
        let anchors: Vec<String> = anchors("# A\n```\n# B\n```\n## C d\n").into_iter().collect();
        assert_eq!(anchors, ["a", "c-d"]);
    }

    #[test]
    fn links_in_code_do_not_count() {
        assert_eq!(targets("[a](b.md#c)\n```\n[d](e)\n```\n![f](g.png)"), ["b.md#c", "g.png"]);
    }
}
