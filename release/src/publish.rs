//! Prints each step of the day of a release, in order, and checks what can be checked before it.
//! `release/publish --dry-run` runs it. It uploads nothing: a tag, the workflow and the owner do.

use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;

use crate::plan;
use crate::source::{Source, output};
use crate::target::{Program, Target};

/// Prints the steps of publishing a release, in order, and checks what can be checked before:
/// versions, names and packages of the crates, licences, links, chart, krew manifest.
#[derive(Args)]
pub(crate) struct Options {
    /// Print and check, and publish nothing; the workflow publishes when a tag is pushed
    #[arg(long)]
    dry_run: bool,
    /// Pack the crates without compiling each alone, and leave the links unchecked
    #[arg(long)]
    no_verify: bool,
    /// Ask the index of crates.io if each name is free
    #[arg(long)]
    index: bool,
    /// Check although files differ from the commit
    #[arg(long)]
    allow_dirty: bool,
}

/// The result of a check, with a reason.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Good(String),
    /// Something is to do on the day, or before it.
    ToDo(String),
    NotChecked(String),
    Bad(String),
}

use Outcome::{Bad, Good, NotChecked, ToDo};

/// Prints steps and checks.
///
/// # Errors
///
/// If a check fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.dry_run {
        bail!("only --dry-run exists: push a tag, and the workflow publishes (docs/releasing.md)");
    }
    let source = Source::read(None, options.allow_dirty)?;
    print!("{}\nChecks\n", steps(&source.version, &source.commit, &source.crates));
    let mut failed = 0;
    for (name, check) in checks(&source, options) {
        let outcome = check().unwrap_or_else(|error| Bad(format!("{error:#}")));
        let (word, why) = match &outcome {
            Good(why) => ("good", why),
            ToDo(why) => ("to do", why),
            NotChecked(why) => ("not checked", why),
            Bad(why) => ("FAILED", why),
        };
        failed += usize::from(matches!(outcome, Bad(_)));
        println!("  {word:<12} {name}: {why}");
    }
    if failed == 0 { Ok(()) } else { bail!("{failed} checks failed") }
}

/// Returns the steps, each with who does it.
fn steps(version: &str, commit: &str, crates: &[String]) -> String {
    let (repository, image, charts) = (env!("CARGO_PKG_REPOSITORY"), plan::IMAGE, plan::CHARTS);
    let chart = format!("{}/{}", charts.trim_start_matches("oci://"), Program::MANAGER.name);
    let steps = [
        (
            "owner, once",
            "make the environment `release` of the repository, and the rules for branches".to_owned(),
        ),
        (
            "owner",
            format!("git tag --annotate v{version} --message v{version} && git push origin v{version}"),
        ),
        ("workflow", "make the files on macOS and Debian, with provenance".to_owned()),
        ("workflow", format!("push and sign the image {image}:{version}")),
        ("workflow", format!("push the chart {charts}/{}:{version}", Program::MANAGER.name)),
        ("workflow", format!("publish the files at {repository}/releases/tag/v{version}")),
        (
            "owner, then workflow",
            format!(
                "publish the crates, the first version by `cargo publish --workspace --locked`, in this order:\n      {}",
                crates.join("\n      ")
            ),
        ),
        (
            "owner, then workflow",
            format!("propose {} to krew-index, the first version in a pull request of yours", plan::KREW),
        ),
        (
            "owner, once",
            format!(
                "add {charts}/{} to Artifact Hub, write its ID into {ARTIFACT_HUB}, and push that file:\n      \
                 oras push {chart}:artifacthub.io --config /dev/null:application/vnd.cncf.artifacthub.config.v1+yaml \
                 {ARTIFACT_HUB}:application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml",
                Program::MANAGER.name
            ),
        ),
        ("owner", "build the site with `just book`, and put target/book on it".to_owned()),
    ];
    let mut text = format!("Release {version} of commit {commit}\n\nSteps\n");
    for (number, (who, what)) in (1..).zip(steps) {
        text += &format!("  {number:>2}. {who}: {what}\n");
    }
    text
}

/// The metadata of the chart's repository on Artifact Hub.
const ARTIFACT_HUB: &str = "deploy/artifacthub-repo.yml";

/// A check, which may take minutes.
type Check<'a> = Box<dyn Fn() -> Result<Outcome> + 'a>;

fn checks<'a>(source: &'a Source, options: &'a Options) -> Vec<(&'static str, Check<'a>)> {
    let read = |path: &str| Ok::<_, anyhow::Error>(String::from_utf8(crate::read(&source.root.join(path))?)?);
    vec![
        ("versions", Box::new(|| Ok(Good("those of Cargo.toml and of the chart are equal".to_owned())))),
        ("changelog", Box::new(move || Ok(changelog(&read("CHANGELOG.md")?, &source.version)))),
        ("names of the crates", Box::new(|| Ok(names(source, options.index)))),
        ("fields of the crates", Box::new(|| Ok(fields(&source.packages)))),
        ("schema of the chart", Box::new(move || schema(&read))),
        ("chart", Box::new(|| Ok(lint(source)))),
        ("krew", Box::new(move || Ok(krew(&read(".krew.yaml")?)))),
        ("Artifact Hub", Box::new(move || Ok(artifact_hub(&read(ARTIFACT_HUB)?)))),
        ("licences", Box::new(|| licences(source))),
        ("links", Box::new(|| links(source, options.no_verify))),
        ("packages", Box::new(|| packages(source, options))),
    ]
}

fn changelog(text: &str, version: &str) -> Outcome {
    match text.contains(&format!("\n## [{version}]")) {
        true => Good(format!("it has a section for {version}")),
        false => ToDo(format!("give {version} a section in CHANGELOG.md")),
    }
}

/// Looks for crates of others with the names of ours.
fn names(source: &Source, asks: bool) -> Outcome {
    if !asks {
        return NotChecked("give --index to ask crates.io for each".to_owned());
    }
    let mut taken = Vec::new();
    for name in &source.crates {
        // Within a workspace Cargo tells of the package there.
        let info = Command::new("cargo").args(["info", "--quiet", name]).current_dir("/").output();
        match info {
            Ok(info) if info.status.success() => taken.push(name.as_str()),
            Ok(info) if String::from_utf8_lossy(&info.stderr).contains("could not find") => {}
            Ok(info) => {
                let why = String::from_utf8_lossy(&info.stderr);
                return NotChecked(format!(
                    "the index does not answer: {}",
                    why.lines().next().unwrap_or_default()
                ));
            }
            Err(error) => return NotChecked(format!("cargo does not start: {error}")),
        }
    }
    match taken.as_slice() {
        [] => Good(format!("none of {} is taken", source.crates.len())),
        taken => ToDo(format!("these exist; see that they are yours: {}", taken.join(", "))),
    }
}

/// Checks what crates.io demands of a manifest.
fn fields(packages: &[Value]) -> Outcome {
    let wrong = |package: &Value| {
        let few = |field: &str| package[field].as_array().is_none_or(|all| all.len() <= 5);
        let is_keyword =
            |word: &Value| word.as_str().is_some_and(|word| word.len() <= 20 && !word.contains(' '));
        let is_good =
            ["description", "license", "repository", "readme"].iter().all(|field| package[field].is_string())
                && few("keywords")
                && few("categories")
                && package["keywords"].as_array().into_iter().flatten().all(is_keyword);
        (!is_good).then(|| package["name"].as_str().unwrap_or_default().to_owned())
    };
    let wrong: Vec<String> = packages.iter().filter_map(wrong).collect();
    match wrong.as_slice() {
        [] => Good(format!(
            "{} crates have description, licence, repository, README and short keywords",
            packages.len()
        )),
        wrong => Bad(format!(
            "{}: description, license, repository, readme, or five short keywords are wrong",
            wrong.join(", ")
        )),
    }
}

/// Packs the crates, and compiles each as its users will, unless the options forbid it.
fn packages(source: &Source, options: &Options) -> Result<Outcome> {
    let mut arguments = vec!["publish", "--locked", "--workspace", "--dry-run", "--quiet"];
    arguments.extend(options.no_verify.then_some("--no-verify"));
    arguments.extend(options.allow_dirty.then_some("--allow-dirty"));
    output(source.cargo(&arguments).env_remove("SOURCE_DATE_EPOCH"))?;
    let how = if options.no_verify { "packed, not compiled" } else { "packed and compiled, each alone" };
    Ok(Good(format!("{} {how}: cargo {}", source.crates.len(), arguments.join(" "))))
}

fn licences(source: &Source) -> Result<Outcome> {
    for package in &source.packages {
        let folder = std::path::Path::new(package["manifest_path"].as_str().unwrap_or_default());
        crate::read(&folder.with_file_name("LICENSE"))?;
    }
    let deny = ["deny", "--locked", "check", "--hide-inclusion-graph", "licenses"];
    if !Command::new("cargo").args(["deny", "--version"]).output().is_ok_and(|it| it.status.success()) {
        return Ok(NotChecked("each crate has LICENSE; those of dependencies need cargo-deny".to_owned()));
    }
    output(&mut source.cargo(&deny))?;
    Ok(Good("each crate has LICENSE, and cargo deny allows those of dependencies".to_owned()))
}

fn links(source: &Source, is_quick: bool) -> Result<Outcome> {
    let arguments =
        ["test", "--locked", "--package", "kube-endpoint-integration-tests", "--test", "it", "docs"];
    let command = format!("cargo {}", arguments.join(" "));
    if is_quick {
        return Ok(NotChecked(command));
    }
    output(source.cargo(&arguments).env_remove("SOURCE_DATE_EPOCH"))?;
    Ok(Good(command))
}

/// Compares the values of the chart with their schema.
fn schema(read: &impl Fn(&str) -> Result<String>) -> Result<Outcome> {
    let schema: Value = serde_json::from_str(&read("deploy/chart/values.schema.json")?)?;
    Ok(values_of_schema(&schema, &read("deploy/chart/values.yaml")?))
}

fn values_of_schema(schema: &Value, values: &str) -> Outcome {
    let is_key = |line: &&str| line.starts_with(|first: char| first.is_ascii_alphabetic());
    let mut given: Vec<&str> =
        values.lines().filter(is_key).filter_map(|line| line.split(':').next()).collect();
    let mut known: Vec<&str> =
        schema["properties"].as_object().into_iter().flatten().map(|(key, _)| &**key).collect();
    given.sort_unstable();
    known.sort_unstable();
    // Helm passes values for charts above this one.
    known.retain(|key| *key != "global");
    match given.iter().chain(&known).find(|key| !given.contains(key) || !known.contains(key)) {
        None => Good(format!("it names the {} values", known.len())),
        Some(key) => Bad(format!("{key:?} is in one of values.yaml and values.schema.json only")),
    }
}

fn lint(source: &Source) -> Outcome {
    let mut helm = Command::new("helm");
    match helm
        .args(["lint", "--strict", "deploy/chart", "--set", "image.repository=x"])
        .current_dir(&source.root)
        .output()
    {
        Ok(lint) if lint.status.success() => Good("helm lint --strict".to_owned()),
        Ok(lint) => Bad(String::from_utf8_lossy(&lint.stdout).trim().replace('\n', "; ")),
        Err(_) => NotChecked("helm is missing".to_owned()),
    }
}

/// Checks that the krew manifest has the archive of each platform.
fn krew(template: &str) -> Outcome {
    let archives = Target::ALL.map(|target| plan::archive(&Program::PLUGIN, target));
    match archives.iter().find(|archive| !template.contains(&format!("/{archive}\""))) {
        None => Good(format!("it has {} platforms", archives.len())),
        Some(archive) => Bad(format!(".krew.yaml lacks {archive}")),
    }
}

fn artifact_hub(text: &str) -> Outcome {
    let id = text.lines().find_map(|line| line.strip_prefix("repositoryID:")).map(str::trim);
    let is_uuid =
        |id: &str| id.len() == 36 && id.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    match id {
        Some(id) if is_uuid(id) => Good("it has the ID of the repository".to_owned()),
        Some("") => ToDo(format!("write the repositoryID that Artifact Hub shows into {ARTIFACT_HUB}")),
        Some(id) => Bad(format!("the repositoryID {id:?} is no UUID")),
        None => Bad(format!("{ARTIFACT_HUB} has no repositoryID")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_steps_are_in_order_and_say_who_does_them() {
        let text = steps("1.2.3", "abc", &["first".to_owned(), "second".to_owned()]);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in\n{text}"));
        let order = [
            "owner: git tag --annotate v1.2.3",
            "workflow: push and sign the image",
            "workflow: push the chart",
            "\n      first\n      second\n",
            "krew-index",
            "Artifact Hub",
            "the site",
        ];
        assert!(order.map(at).is_sorted(), "{text}");
    }

    #[test]
    fn fields_that_crates_io_refuses_are_found() {
        let good = json!({"name": "a", "description": "d", "license": "l", "repository": "r", "readme": "README.md",
            "keywords": ["one"], "categories": []});
        let with = |field: &str, value: Value| {
            let mut package = good.clone();
            package[field] = value;
            matches!(fields(&[package]), Bad(_))
        };
        assert!(matches!(fields(std::slice::from_ref(&good)), Good(_)));
        assert!(with("description", Value::Null) && with("readme", Value::Null));
        assert!(with("keywords", json!(["a", "b", "c", "d", "e", "f"])));
        assert!(with("keywords", json!(["a-word-of-over-20-letters"])));
        assert!(!with("keywords", json!(["a-word-of-20-letters"])));
    }

    #[test]
    fn a_value_without_schema_is_found() {
        let schema = json!({"properties": {"image": {}, "mode": {}, "global": {}}});
        let check = |values: &str| values_of_schema(&schema, values);
        assert_eq!(check("# a\nimage:\n  tag: x\nmode: y\n"), Good("it names the 2 values".to_owned()));
        assert!(matches!(check("image:\nmode: y\nother: 1\n"), Bad(why) if why.contains("other")));
        assert!(matches!(check("image:\n"), Bad(why) if why.contains("mode")));
    }

    #[test]
    fn the_krew_manifest_needs_each_platform() {
        let manifest = include_str!("../../.krew.yaml");
        assert_eq!(krew(manifest), Good("it has 5 platforms".to_owned()));
        let without = manifest.replace("windows-amd64", "windows-arm64");
        assert!(matches!(krew(&without), Bad(why) if why.contains("windows-amd64")));
    }

    #[test]
    fn artifact_hub_gives_an_id() {
        let of = |id: &str| artifact_hub(&format!("# text\nrepositoryID: {id}\n"));
        assert!(matches!(of(""), ToDo(_)));
        assert!(matches!(of("7a1c7c2e-4b1e-4d8e-9d0b-0d1f6e1b2c3d"), Good(_)));
        assert!(matches!(of("x"), Bad(_)) && matches!(artifact_hub("owners: []\n"), Bad(_)));
        assert!(!matches!(artifact_hub(include_str!("../../deploy/artifacthub-repo.yml")), Bad(_)));
    }

    #[test]
    fn the_changelog_has_a_section_of_the_version() {
        assert!(matches!(changelog("# C\n\n## [1.2.3] - 2026\n", "1.2.3"), Good(_)));
        assert!(matches!(changelog("# C\n\n## [Unreleased]\n", "1.2.3"), ToDo(_)));
    }
}
