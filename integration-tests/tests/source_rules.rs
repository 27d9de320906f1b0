//! Rules for the source files that no lint checks.
#![allow(clippy::unwrap_used)]

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// All Rust source files of the workspace, with their contents.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> =
        ["crates", "bins", "benches", "integration-tests"].iter().map(|name| root.join(name)).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    files
}

/// The lines at which a `select!` begins whose branches are polled in random order.
fn unbiased(source: &str) -> Vec<usize> {
    let begins = |(before, _): &(&str, &str)| before.matches('\n').count() + 1;
    let macros = source.match_indices("select!").map(|(at, _)| source.split_at(at));
    let is_unbiased = |(_, rest): &(&str, &str)| {
        let body = rest["select!".len()..].trim_start();
        body.strip_prefix(['{', '(', '[']).is_some_and(|body| !body.trim_start().starts_with("biased;"))
    };
    macros.filter(is_unbiased).map(|it| begins(&it)).collect()
}

#[test]
fn every_select_is_biased() {
    let check = |source: &str, want: &[usize]| assert_eq!(unbiased(source), want, "{source}");
    check("tokio::select! {\n    biased;\n    () = a => {}\n}", &[]);
    check("x;\nselect! {\n    () = a => {}\n}", &[2]);
    check("tokio::select!(biased; () = a => {});\nselect!( () = a => {})", &[2]);
    check("//! Docs of `select!` and of select! without a body.", &[]);

    let sources = sources();
    let with_select = sources.iter().filter(|(_, text)| text.contains("select! {\n")).count();
    assert!(with_select > 20, "only {with_select} files with a select were found");
    let this = Path::new(file!()).file_name();
    let found: Vec<String> = sources
        .iter()
        .filter(|(path, _)| path.file_name() != this)
        .flat_map(|(path, text)| {
            unbiased(text).into_iter().map(move |line| format!("{}:{line}", path.display()))
        })
        .collect();
    assert!(
        found.is_empty(),
        "without `biased;` tokio polls the branches in random order:\n{}",
        found.join("\n")
    );
}

/// The files of the workspace that may contain `unsafe`.
const UNSAFE: [&str; 1] = ["bins/kube-endpoint-manager/src/heap.rs"];

#[test]
fn only_these_files_are_exempt_from_the_lint_for_unsafe() {
    // Not in one word, because this file is searched too.
    let exemption = concat!("unsafe", "_code");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().canonicalize().unwrap();
    let exempt: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|(_, text)| text.contains(exemption))
        .map(|(path, _)| path.canonicalize().unwrap().strip_prefix(&root).unwrap().to_owned())
        .collect();
    assert_eq!(exempt, UNSAFE.map(PathBuf::from));
}

/// The compiler leaves functions with the attribute out of these programs, which list their tests
/// in `main`.
#[test]
fn programs_without_the_harness_have_no_function_with_its_attribute() {
    let mut checked = Vec::new();
    for package in ["integration-tests", "integration-tests/simulation"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package);
        let manifest = read_to_string(folder.join("Cargo.toml")).unwrap();
        for section in manifest.split("\n[[test]]\n").skip(1).filter(|it| it.contains("harness = false")) {
            let name =
                section.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"');
            let tests = folder.join("tests");
            let is_of = |path: &Path| {
                path.starts_with(tests.join(name)) || path == tests.join(name).with_extension("rs")
            };
            for (path, text) in sources().into_iter().filter(|(path, _)| is_of(path)) {
                assert!(!text.contains("#[test]") && !text.contains("#[tokio::test"), "{}", path.display());
                checked.push(path);
            }
        }
    }
    assert!(checked.len() > 20, "{checked:?}");
}

/// Cargo finds no tests by itself in a package with `autotests = false`: a file that no `mod` names
/// is not compiled.
#[test]
fn every_file_of_a_test_program_is_declared() {
    let sources = sources();
    let programs: Vec<&Path> = sources
        .iter()
        .filter(|(path, _)| path.ends_with("tests/main.rs"))
        .filter_map(|(path, _)| path.parent())
        .collect();
    let mut checked = 0;
    for (path, _) in sources.iter().filter(|(path, _)| programs.iter().any(|it| path.starts_with(it))) {
        let folder = path.parent().unwrap();
        // `name/mod.rs` is declared where `name.rs` would be.
        let (name, folder) = match path.file_stem().unwrap().to_str().unwrap() {
            "main" => continue,
            "mod" => (folder.file_name().unwrap().to_str().unwrap(), folder.parent().unwrap()),
            name => (name, folder),
        };
        // The other programs of the package have a section of its manifest each.
        let manifest = folder.with_file_name("Cargo.toml");
        if read_to_string(manifest).is_ok_and(|it| it.contains(&format!("[[test]]\nname = \"{name}\"\n"))) {
            continue;
        }
        let parents = [folder.join("main.rs"), folder.join("mod.rs"), folder.with_extension("rs")];
        let line = format!("mod {name};");
        let is_declared = sources.iter().filter(|(path, _)| parents.contains(path)).any(|(_, text)| {
            text.lines().any(|it| it.trim_start_matches("pub ").trim_start_matches("pub(crate) ") == line)
        });
        assert!(is_declared, "no `{line}` in any of {parents:?}");
        checked += 1;
    }
    assert!(checked > 60, "only {checked} files were checked");
}

/// The lines of comments that are wider than 100 columns, but for code, tables and what has no
/// blank to break at.
fn too_wide(source: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_end();
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_code = false;
            continue;
        };
        let text = comment.trim_start_matches(['/', '!']).trim();
        if text.starts_with("```") {
            in_code = !in_code;
        }
        let can_break = text.contains(' ') && !in_code && !text.starts_with(['|', '`']);
        if can_break && line.chars().count() > 100 {
            found.push(number + 1);
        }
    }
    found
}

#[test]
fn comments_fit_in_100_columns() {
    let wide = "word ".repeat(21);
    let check = |source: &str, want: &[usize]| assert_eq!(too_wide(source), want, "{source}");
    check(&format!("code();\n// {wide}\n    /// {wide}\n//! {wide}"), &[2, 3, 4]);
    check(&format!("//! ```\n//! {wide}\n//! ```\n//! | {wide}|\nlet a = \"{wide}\";"), &[]);
    check(&format!("//! ```\n//! x\n//! ```\n//! {wide}"), &[4]);
    check(&format!("// {}", "x".repeat(200)), &[]);

    let found: Vec<String> = sources()
        .iter()
        .flat_map(|(path, text)| {
            too_wide(text).into_iter().map(move |line| format!("{}:{line}", path.display()))
        })
        .collect();
    assert!(found.is_empty(), "comments wider than 100 columns:\n{}", found.join("\n"));
}
