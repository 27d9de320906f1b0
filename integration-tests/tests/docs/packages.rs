//! The published packages: metadata, files, and README.md, which has the begin of the documentation
//! in the source.
//!
//! This writes the files:
//! `UPDATE_DOCS=1 cargo test -p kube-endpoint-integration-tests --test it packages`

use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::root;

const REPOSITORY: &str = "https://github.com/kube-endpoint-manager/kube-endpoint-manager";

/// The categories in use. <https://crates.io/category_slugs> lists all.
const CATEGORIES: [&str; 11] = [
    "asynchronous",
    "authentication",
    "caching",
    "command-line-utilities",
    "concurrency",
    "data-structures",
    "development-tools::debugging",
    "development-tools::testing",
    "network-programming",
    "web-programming::http-client",
    "web-programming::http-server",
];

/// The most lines of a README.md.
const LONGEST_README: usize = 40;

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(arguments).arg("--offline").current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns what cargo says about the packages that are published.
fn packages() -> Vec<Value> {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version=1"])).unwrap();
    let all = metadata["packages"].as_array().unwrap().iter();
    let published: Vec<Value> = all.filter(|package| package["publish"].is_null()).cloned().collect();
    assert!(published.len() > 20, "{} packages", published.len());
    published
}

fn name(package: &Value) -> &str {
    package["name"].as_str().unwrap()
}

fn file(package: &Value, path: &str) -> std::path::PathBuf {
    Path::new(package["manifest_path"].as_str().unwrap()).with_file_name(path)
}

/// Returns the source file that a package begins with, if it is a library.
fn library(package: &Value) -> Option<String> {
    read_to_string(file(package, "src/lib.rs")).ok()
}

/// Returns the strings of a list.
fn strings<'a>(package: &'a Value, list: &str) -> Vec<&'a str> {
    package[list].as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

#[test]
fn metadata_says_what_a_package_is_and_where_it_belongs() {
    let manifest = read_to_string(root().join("Cargo.toml")).unwrap();
    let library_page = read_to_string(root().join("docs/library.md")).unwrap();
    for package in packages() {
        let name = name(&package);
        let description = package["description"].as_str().unwrap();
        assert!(
            (40..=160).contains(&description.len()) && description.ends_with('.'),
            "{name}: {description}"
        );
        let keywords = strings(&package, "keywords");
        assert!((3..=5).contains(&keywords.len()), "{name}: {keywords:?}");
        for keyword in keywords {
            let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(keyword.len() <= 20 && keyword.chars().all(is_valid), "{name}: {keyword}");
        }
        let categories = strings(&package, "categories");
        assert!((1..=5).contains(&categories.len()), "{name}: {categories:?}");
        for category in categories {
            assert!(CATEGORIES.contains(&category), "{name}: is {category} a category of crates.io?");
        }
        assert_eq!(package["license"], "Apache-2.0", "{name}");
        assert_eq!(package["repository"], REPOSITORY, "{name}");
        assert_eq!(package["readme"], "README.md", "{name}");
        let version = package["rust_version"].as_str().unwrap();
        assert!(manifest.contains(&format!("\nrust-version = \"{version}\"\n")), "{name}: {version}");
        // docs.rs builds a package alone, with all features, so nothing else chooses a version of
        // Kubernetes.
        let docs_rs = json!({
            "all-features": true,
            "cargo-args": ["--config", "env.K8S_OPENAPI_ENABLED_VERSION='1.36'"],
        });
        match library(&package) {
            Some(source) => {
                assert_eq!(package["metadata"]["docs"]["rs"], docs_rs, "{name}");
                assert!(library_page.contains(&format!("\n| `{name}` | ")), "docs/library.md lists {name}");
                for feature in package["features"].as_object().unwrap().keys().filter(|it| *it != "default") {
                    assert!(source.contains(&format!("`{feature}`")), "{name} documents feature {feature}");
                }
            }
            None => assert!(package["documentation"].as_str().unwrap().starts_with(REPOSITORY), "{name}"),
        }
    }
}

/// Tests stay in the repository, since they need the files of all packages.
#[test]
fn a_package_has_licence_and_readme_and_no_tests() {
    let packages = packages();
    let licence = read_to_string(root().join("LICENSE")).unwrap();
    let mut arguments = vec!["package", "--list", "--allow-dirty"];
    for package in &packages {
        arguments.extend(["--package", name(package)]);
        assert_eq!(read_to_string(file(package, "LICENSE")).unwrap(), licence, "{}", name(package));
    }
    let files = cargo(&arguments);
    for wanted in ["Cargo.toml", "LICENSE", "README.md"] {
        let count = files.lines().filter(|line| *line == wanted).count();
        assert_eq!(count, packages.len(), "packages with {wanted}");
    }
    let unwanted = |line: &&str| line.starts_with("tests/") || line.ends_with(".snap");
    assert_eq!(files.lines().find(unwanted), None);
}

/// Returns the begin of the documentation, with its first block of code. Lines that rustdoc hides
/// are left out.
fn begin(source: &str) -> String {
    let mut begin = String::new();
    let mut fences = 0;
    for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
        let line = line.strip_prefix(' ').unwrap_or(line);
        fences += usize::from(line.starts_with("```"));
        let line = if line == "```" && fences == 1 { "```rust" } else { line };
        let is_hidden = fences == 1 && (line == "#" || line.starts_with("# ")) && begin.contains("```rust");
        if !is_hidden {
            begin += line;
            begin.push('\n');
        }
        if fences == 2 {
            return begin;
        }
    }
    panic!("the documentation has no example: {source}");
}

#[test]
fn the_begin_of_the_documentation_ends_with_the_first_example() {
    let source = "//! It is.\n//!\n//! ```\n//! # hidden();\n//! shown();\n//! ```\n//! More.\nmod a;\n";
    assert_eq!(begin(source), "It is.\n\n```rust\nshown();\n```\n");
    let source = "//! It is.\n//!\n//! ```sh\n//! # A comment\n//! ls\n//! ```\n";
    assert_eq!(begin(source), "It is.\n\n```sh\n# A comment\nls\n```\n");
}

/// Returns the README.md of a package.
fn readme(package: &Value) -> String {
    let name = name(package);
    let source = library(package).unwrap_or_else(|| read_to_string(file(package, "src/main.rs")).unwrap());
    let begin = begin(&source);
    let text = begin.split("```").next().unwrap();
    assert!(!text.contains("\n#") && !text.contains('['), "{name}: a text without links, for all readers");
    assert!(text.split_whitespace().any(|word| word == "for"), "{name}: the text says whom it is for");
    let documentation = match package["documentation"].as_str() {
        Some(page) => format!("[Documentation]({page})"),
        None => format!("[Documentation](https://docs.rs/{name}), from the first release on"),
    };
    let all = format!("[How the crates go together]({REPOSITORY}/blob/main/docs/library.md)");
    format!("# {name}\n\n{begin}\n{documentation}. {all}. Licence: Apache-2.0.\n")
}

#[test]
fn each_readme_is_made_of_the_documentation() {
    let mut differing = Vec::new();
    for package in packages() {
        let (path, readme) = (file(&package, "README.md"), readme(&package));
        let lines = readme.lines().count();
        assert!(lines <= LONGEST_README, "{} has {lines} lines", path.display());
        if read_to_string(&path).unwrap_or_default() != readme {
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::write(&path, readme).unwrap();
            } else {
                differing.push(path);
            }
        }
    }
    assert!(differing.is_empty(), "write them with UPDATE_DOCS=1: {differing:#?}");
}

/// The job that compiles with the oldest compiler.
#[test]
fn the_workflow_checks_the_promised_compiler() {
    let version = packages()[0]["rust_version"].as_str().unwrap().to_owned();
    let workflow = read_to_string(root().join(".github/workflows/ci.yml")).unwrap();
    assert!(workflow.contains(&format!("cargo +{version} check --locked --workspace\n")), "{version}");
}
