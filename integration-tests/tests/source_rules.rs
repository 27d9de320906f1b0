//! Rules for the source files that no lint checks.
#![allow(clippy::unwrap_used)]

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// Returns all Rust source files of the workspace, with their contents.
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

/// Returns the places at which `rule` finds something, as `path:line`.
fn places(rule: impl Fn(&Path, &str) -> Vec<usize>) -> Vec<String> {
    let found = sources().into_iter().map(|(path, text)| (rule(&path, &text), path));
    found
        .flat_map(|(lines, path)| lines.into_iter().map(move |line| format!("{}:{line}", path.display())))
        .collect()
}

/// Returns the lines at which a `select!` begins that polls its branches in random order.
fn unbiased(source: &str) -> Vec<usize> {
    let begins = |(before, _): &(&str, &str)| before.matches('\n').count() + 1;
    let macros = source.match_indices("select!").map(|(at, _)| source.split_at(at));
    let is_unbiased = |(_, rest): &(&str, &str)| {
        let body = rest["select!".len()..].trim_start();
        body.strip_prefix(['{', '(', '[']).is_some_and(|body| !body.trim_start().starts_with("biased;"))
    };
    macros.filter(is_unbiased).map(|it| begins(&it)).collect()
}

/// The folders of `crates/explain/src`, from the lowest.
const FLOORS: [&str; 5] = ["facts", "models", "findings", "answers", "text"];

/// Returns the lines at which a file of `crates/explain/src` names a folder above its own.
fn upward(path: &Path, source: &str) -> Vec<usize> {
    let floor = |name: &str| FLOORS.iter().position(|floor| *floor == name);
    let path = path.to_string_lossy();
    let Some(own) =
        path.split_once("crates/explain/src/").and_then(|(_, rest)| floor(rest.split('/').next()?))
    else {
        return Vec::new();
    };
    let above = |line: &str| {
        let mut named = line.split("crate::").skip(1);
        named.any(|rest| {
            floor(rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
                .is_none_or(|floor| floor > own)
        })
    };
    let lines = source.lines().enumerate().filter(|(_, line)| !line.contains("$crate::") && above(line));
    lines.map(|(number, _)| number + 1).collect()
}

/// The smallest clusters of findings are read by tests of these, which look at answers.
#[test]
fn the_floors_of_explanations_import_downward() {
    let of = |source| upward(Path::new("crates/explain/src/models/near.rs"), source);
    assert_eq!(of("use crate::facts::age;\nuse crate::findings::Code;\nuse crate::Code;"), [2, 3]);
    let found = places(|path, text| match path.ends_with("findings/testing.rs") {
        true => Vec::new(),
        false => upward(path, text),
    });
    assert!(found.is_empty(), "imports from a floor above:\n{}", found.join("\n"));
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
    let found = places(|path, text| if path.file_name() == this { Vec::new() } else { unbiased(text) });
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
    // The word has two parts, because the test searches this file, too.
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
        // The parent of `name.rs` also declares `name/mod.rs`.
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

/// Returns the lines of a program that name a page of the documentation by its path in the
/// repository. Comments and tests may.
fn pages_without_address(path: &Path, source: &str) -> Vec<usize> {
    let path = path.to_string_lossy();
    let is_test = ["integration-tests", "benches", "metrics/catalogue.rs"].iter().any(|it| path.contains(it));
    if !path.contains("/src/") || is_test {
        return Vec::new();
    }
    let names_page = |line: &str| {
        let mut named = line.match_indices("docs/").filter(|(at, _)| !line[..*at].ends_with('/'));
        let is_end = |c: char| !(c.is_alphanumeric() || "/-_.".contains(c));
        named.any(|(at, _)| line[at..].split(is_end).next().is_some_and(|path| path.contains(".md")))
    };
    let program = source.lines().enumerate().take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
    let lines = program.filter(|(_, line)| !line.trim_start().starts_with("//") && names_page(line));
    lines.map(|(number, _)| number + 1).collect()
}

/// A reader of a message has no clone of the repository.
#[test]
fn messages_name_pages_by_their_address() {
    let check = |source: &str, want: &[usize]| {
        assert_eq!(pages_without_address(Path::new("crates/a/src/b.rs"), source), want, "{source}");
    };
    check("// docs/run.md\nlet a = \"see docs/run.md\";\nlet b = \"(docs/run.md)\";", &[2, 3]);
    check("let a = \"https://example.com/docs/run.md, docs/ and run.md\";", &[]);
    check("a();\n#[cfg(test)]\nlet a = \"docs/run.md\";", &[]);

    let found = places(pages_without_address);
    assert!(found.is_empty(), "messages name a page that a reader cannot open:\n{}", found.join("\n"));
}

/// Returns the lines of comments that are wider than 100 columns, except code, tables and texts
/// without a blank.
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

    let found = places(|_, text| too_wide(text));
    assert!(found.is_empty(), "comments wider than 100 columns:\n{}", found.join("\n"));
}

/// Returns the lines that declare something public without a doc comment, and 1 if the file does
/// not open with one. Fields and variants need none: most of their names say enough.
fn undocumented(source: &str) -> Vec<usize> {
    const KINDS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"];
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    if !source.starts_with("//!") {
        found.push(1);
    }
    let mut in_trait = false;
    for (at, line) in lines.iter().enumerate() {
        if !line.starts_with([' ', '}']) {
            in_trait = line.starts_with("pub trait ");
        }
        let rest = match line.trim_start().strip_prefix("pub ") {
            Some(rest) => rest,
            None if in_trait && line.starts_with("    ") && !line.starts_with("     ") => line.trim_start(),
            None => continue,
        };
        let kind = rest.split(' ').find(|word| !["async", "unsafe"].contains(word));
        // A file `name.rs` has the docs of `mod name;`, and `$name` is a macro's.
        let is_checked = kind.is_some_and(|kind| KINDS.contains(&kind))
            && !(kind == Some("mod") && rest.ends_with(';'))
            && !rest.contains('$');
        let above = lines[..at].iter().rev().map(|line| line.trim());
        let mut attributes_and_docs = above.take_while(|it| !it.is_empty() && !it.ends_with(['{', '}', ';']));
        if is_checked && !attributes_and_docs.any(|it| it.starts_with("///")) {
            found.push(at + 1);
        }
    }
    found
}

#[test]
fn public_types_traits_functions_and_modules_have_docs() {
    let check = |source: &str, want: &[usize]| {
        assert_eq!(undocumented(&format!("//! A module.\n{source}")), want, "{source}");
    };
    check("/// A doc.\n#[must_use]\npub fn a() {}\n\npub fn b() {}", &[6]);
    check("/// A doc.\npub struct A {\n    pub b: u8,\n}\npub const fn b() {}\nfn c() {}", &[6]);
    check(
        "/// A doc.\npub trait A {\n    fn a();\n    /// A doc.\n    fn b();\n}\nimpl A for B {\n    fn a() {}",
        &[4],
    );
    check("pub(crate) fn a() {}\npub use a;\npub mod b;\npub mod c {}", &[5]);
    assert_eq!(undocumented("fn a() {}"), [1]);

    let is_checked = |path: &Path| {
        path.components().any(|it| it.as_os_str() == "src")
            && path.file_stem().is_some_and(|name| name != "tests")
            && !path.components().any(|it| it.as_os_str() == "tests")
    };
    let found = places(|path, text| if is_checked(path) { undocumented(text) } else { Vec::new() });
    assert!(found.is_empty(), "without docs:\n{}", found.join("\n"));
}

/// Returns the lines at which a sentence of a comment begins that is hard to read: its first word
/// hides who does what, or it contains a phrase that readers stumble over. A question may begin
/// with "What".
fn unclear(source: &str) -> Vec<usize> {
    const WORDS: [&str; 4] = ["Whether ", "Has ", "What ", "None "];
    const PHRASES: [&str; 7] = [
        " of which",
        " for so long",
        " all the same",
        " ever more",
        " none if",
        " as far as",
        "eturns whether ",
    ];
    let mut found = Vec::new();
    // The text since the last end of a sentence, and the line at which it begins.
    let (mut sentence, mut begin) = (String::new(), 0);
    let mut end = |sentence: &mut String, begin: usize| {
        let begins_badly = WORDS.iter().any(|it| sentence.starts_with(it)) && !sentence.ends_with("? ");
        if begins_badly || PHRASES.iter().any(|it| format!(" {sentence}").contains(it)) {
            found.push(begin);
        }
        sentence.clear();
    };
    let mut in_code = false;
    for (number, line) in source.lines().enumerate() {
        let text = line.trim_start().strip_prefix("//").map(|it| it.trim_start_matches(['/', '!']).trim());
        let text = text.unwrap_or_default();
        in_code = !text.is_empty() && in_code != text.starts_with("```");
        let item = text.strip_prefix("- ").or_else(|| text.strip_prefix("* "));
        if text.is_empty() || text.starts_with(['|', '#']) || in_code || item.is_some() {
            end(&mut sentence, begin);
        }
        if in_code {
            continue;
        }
        for word in item.unwrap_or(text).split_whitespace() {
            if sentence.is_empty() {
                begin = number + 1;
            }
            sentence.push_str(word);
            sentence.push(' ');
            if word.ends_with(['.', '!', '?']) {
                end(&mut sentence, begin);
            }
        }
    }
    end(&mut sentence, begin);
    found
}

#[test]
fn sentences_in_comments_name_who_does_what() {
    let check = |source: &str, want: &[usize]| assert_eq!(unclear(source), want, "{source}");
    check(
        "/// Whether it is.\nfn a() {}\n// None if not.\n\n//! It is. Has it\n//! done. It is never more.",
        &[1, 3, 5],
    );
    check("// A list:\n// - What is.\n// - a\n// It is one, all\n// the same.\ncode();", &[2, 3]);
    check("// ```\n// What is.\n// ```\n// Then\n// What is it?\nlet a = \"What is\";", &[]);

    let found = places(|_, text| unclear(text));
    assert!(found.is_empty(), "sentences that are hard to read:\n{}", found.join("\n"));
}
