//! Tests the small clusters of `integration-tests/diagnosis`: the answer is right in every part. A
//! cluster has one fault, or none and only looks as if it had one. The file `open` beside them
//! lists those about which the answer is not right yet.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod followed;
mod judged;
mod page;
mod polled;
mod shares;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::fault_manifests::{Fault, all_of, folder};
use judged::{Judged, judge};
use shares::{FLOOR, Shares};

/// Returns all cases, by name.
pub(crate) fn cases() -> BTreeMap<String, Fault> {
    let all = all_of("diagnosis").into_iter();
    all.map(|(file, case)| (file.trim_end_matches(".yaml").to_owned(), case)).collect()
}

/// All cases and the answers to them, by name.
static JUDGED: LazyLock<BTreeMap<String, (Fault, Judged)>> = LazyLock::new(|| {
    let judged = |(name, case): (String, Fault)| {
        let answer = judge(&case);
        (name, (case, answer))
    };
    cases().into_iter().map(judged).collect()
});

/// Returns the names of the cases that are not right yet.
fn open() -> Vec<String> {
    let text = std::fs::read_to_string(folder("diagnosis").join("open")).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn is_kebab(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit())
}

#[test]
fn each_case_says_what_is_right() {
    for (name, case) in cases() {
        assert!(is_kebab(&name), "{name}");
        assert!(is_kebab(&case.kind), "{name}: kind {:?}", case.kind);
        assert!(!case.source.is_empty(), "{name}: no source");
        assert!(case.about.ends_with('.'), "{name}: {}", case.about);
        assert_eq!(case.healthy, case.code.is_empty(), "{name}: a fault has a code");
        assert!(case.healthy || !case.says.is_empty(), "{name}: the words of its cause are missing");
        assert!(case.verdict.is_none(), "{name}: the first code is the verdict");
        assert!(case.receives.is_empty() || !case.person.is_empty() || !case.healthy, "{name}");
    }
}

/// A case that is wrong and not listed is a fault of the product. One that is right and listed
/// should be struck off. `CASE=NAME cargo test ... -- --nocapture` prints one answer.
#[test]
fn all_cases_but_the_open_ones_are_right() {
    let listed = open();
    assert!(listed.is_sorted_by(|one, two| one < two), "`open` is sorted, and lists each name once");
    let unknown: Vec<_> =
        listed.iter().filter(|name| !JUDGED.contains_key(*name) && **name != polled::NAME).collect();
    assert!(unknown.is_empty(), "`open` lists what is no case: {unknown:?}");
    let shares = Shares::of(JUDGED.values());
    println!("{shares}");
    let wanted = std::env::var("CASE").ok();
    if let Some((_, judged)) = wanted.and_then(|name| JUDGED.get(&name)) {
        println!("{}", judged.text);
    }
    let mut failed = Vec::new();
    for (name, (case, judged)) in JUDGED.iter() {
        let is_open = listed.contains(name);
        match (judged.wrong.as_slice(), is_open) {
            ([], true) => failed.push(format!("{name} is right: strike it off `open`")),
            ([], false) => {}
            (wrong, is_open) => {
                let told = format!("=== {name}: {}\n{}\n{}", case.about, wrong.join("\n"), judged.text);
                if is_open { println!("{told}") } else { failed.push(told) }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    FLOOR.check(&shares);
}
