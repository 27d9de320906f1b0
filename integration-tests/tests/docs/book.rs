//! The pages as a book: `docs/SUMMARY.md` lists each page, links lead to headings that exist, and
//! each page says whom it is for.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;

use kube_endpoint_integration_tests::markdown::{anchors, targets};

use super::{pages, root};

/// Links to files of the repository, for pages that are read elsewhere, too.
const REPOSITORY: &str = "https://github.com/kube-endpoint-manager/kube-endpoint-manager/blob/main/";

/// Returns the pages of the book, with their paths in `docs/`.
fn book() -> BTreeMap<String, String> {
    let docs = root().join("docs");
    let in_book = |(path, page): (String, String)| {
        let path = Path::new(&path).strip_prefix(&docs).ok()?.to_str()?.to_owned();
        (path != "SUMMARY.md").then_some((path, page))
    };
    pages().into_iter().filter_map(in_book).collect()
}

#[test]
fn the_summary_lists_each_page_once() {
    let mut listed = targets(&read_to_string(root().join("docs/SUMMARY.md")).unwrap());
    listed.sort();
    assert!(listed.len() > 15, "{listed:?}");
    assert_eq!(listed, book().into_keys().collect::<Vec<_>>());
    let index = read_to_string(root().join("docs/log/index.md")).unwrap();
    let log = listed.iter().filter_map(|page| page.strip_prefix("log/")).filter(|page| *page != "index.md");
    assert_eq!(targets(&index), log.collect::<Vec<_>>());
}

#[test]
fn each_page_says_whom_it_is_for() {
    for (path, page) in book() {
        let first = page.lines().skip(1).find(|line| !line.is_empty()).unwrap_or_default();
        let is_entry = path.starts_with("log/2");
        assert!(is_entry || first.starts_with("This page is for "), "{path} begins with: {first}");
    }
}

/// A visitor reads the front page in half a minute, so details belong into the book.
#[test]
fn the_readme_is_short() {
    let lines = read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!((50..=150).contains(&lines), "README.md has {lines} lines");
}

/// Pages of the book link to other files by their address, since the book does not have them.
#[test]
fn links_lead_to_pages_and_headings_that_exist() {
    let mut found = 0;
    let mut wrong = Vec::new();
    let docs = root().join("docs");
    for (name, page) in pages() {
        let is_in_book = Path::new(&name).starts_with(&docs);
        for target in targets(&page) {
            found += 1;
            let in_repository = target.strip_prefix(REPOSITORY);
            if in_repository.is_none() && target.contains("://") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let path = match in_repository {
                Some(_) => root().join(path.strip_prefix(REPOSITORY).unwrap()),
                None if path.is_empty() => Path::new(&name).to_owned(),
                None => Path::new(&name).with_file_name(path),
            };
            let is_inside =
                path.canonicalize().is_ok_and(|path| path.starts_with(docs.canonicalize().unwrap()));
            let leaves_book = is_in_book && in_repository.is_none() && !is_inside;
            let has_heading = |page: &str| heading.is_empty() || anchors(page).contains(heading);
            let is_right = if path.extension().is_some_and(|extension| extension == "md") {
                read_to_string(&path).is_ok_and(|page| has_heading(&page))
            } else {
                path.exists()
            };
            if leaves_book || !is_right {
                wrong.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere, or out of the book:\n{}", wrong.join("\n"));
    assert!(found > 100, "only {found} links found: does the parser still match the pages?");
}
