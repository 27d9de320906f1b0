//! Tests that the examples of docs/kubectl-plugin.md and README.md equal the output of the plugin.
//!
//! Each console block runs as on a terminal of 80 columns, against the recorded namespace, or
//! against the cluster that the comment before it names. `…` on a line of its own stands for any
//! lines, and `$ echo $?` asks for the exit code. The age at the end of a line depends on the day:
//! the pages may have any.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cleanup;
use crate::server::{Shop, shop_objects};

struct Example {
    /// `shop`, unless a comment says otherwise.
    cluster: String,
    /// Commands, each with the lines that it prints.
    commands: Vec<(String, Vec<String>)>,
}

fn pages() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    ["docs/kubectl-plugin.md", "README.md"]
        .map(|page| std::fs::read_to_string(root.join(page)).unwrap())
        .join("\n")
}

fn examples(page: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let (mut cluster, mut inside) = ("shop".to_owned(), false);
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("<!-- cluster: ") {
            cluster = name.trim_end_matches(" -->").to_owned();
        } else if line == "```console" {
            inside = true;
            examples.push(Example {
                cluster: std::mem::replace(&mut cluster, "shop".into()),
                commands: Vec::new(),
            });
        } else if line == "```" {
            inside = false;
        } else if inside {
            let commands = &mut examples.last_mut().unwrap().commands;
            match line.strip_prefix("$ ") {
                Some(command) => commands.push((command.to_owned(), Vec::new())),
                None => commands.last_mut().unwrap().1.push(line.to_owned()),
            }
        }
    }
    examples
}

/// Returns true if lines are those of an example.
fn matches(want: &[String], have: &[&str]) -> bool {
    match (want.split_first(), have.split_first()) {
        (None, None) => true,
        (Some((dots, rest)), _) if dots == "…" => (0..=have.len()).any(|at| matches(rest, &have[at..])),
        (Some((want, rest)), Some((have, more))) => {
            without_age(want) == without_age(have) && matches(rest, more)
        }
        _ => false,
    }
}

/// Returns a line without the age of the time at its end: `2026-01-02T03:04:05Z (6m45s).`
fn without_age(line: &str) -> &str {
    let end = line.strip_suffix('.').unwrap_or(line);
    let age = end.strip_suffix(')').and_then(|it| it.rsplit_once("Z ("));
    age.filter(|(_, age)| age.bytes().all(|it| it.is_ascii_alphanumeric())).map_or(line, |(time, _)| time)
}

/// Returns the recorded namespace, and a slice that another client has emptied.
fn emptied() -> Vec<Value> {
    let mut list = shop_objects();
    for item in list["items"].as_array_mut().unwrap() {
        if item["metadata"]["name"] == "db-bsvd2" {
            item["endpoints"] = Value::Array(Vec::new());
        }
    }
    vec![list]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_example_prints_what_the_pages_show() {
    let mut failed = String::new();
    let mut run = 0;
    for example in examples(&pages()) {
        let objects = match &*example.cluster {
            "shop" => vec![shop_objects()],
            "emptied" => emptied(),
            "leftovers" => cleanup::objects(),
            other => panic!("a page names an unknown cluster {other:?}"),
        };
        let shop = Shop::with(objects, Vec::new()).await;
        let mut code: Option<i32> = None;
        for (line, want) in example.commands {
            if line == "echo $?" {
                assert_eq!(want, [code.unwrap_or_default().to_string()], "{line}");
                continue;
            }
            let Some(arguments) = line.strip_prefix("kubectl diagnose-svc ") else { continue };
            if want.is_empty() {
                continue;
            }
            let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
            command.args(arguments.split(' ')).env("KUBECONFIG", shop.kubeconfig.path()).env("COLUMNS", "80");
            command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).stdin(Stdio::null());
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            code = output.status.code();
            let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            run += 1;
            if !matches(&want, &text.lines().collect::<Vec<_>>()) {
                failed += &format!("$ {line}\n{text}\n");
            }
        }
    }
    assert!(failed.is_empty(), "the pages should show:\n{failed}");
    assert!(run >= 8, "only {run} examples were run");
}

/// Adds the names of all fields, except those of the data of a finding.
fn fields(value: &Value, names: &mut BTreeSet<String>) {
    for (name, field) in value.as_object().into_iter().flatten() {
        names.insert(name.clone());
        if name != "details" && name != "patch" {
            fields(field, names);
        }
    }
    value.as_array().into_iter().flatten().for_each(|item| fields(item, names));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_field_of_the_documents_is_described() {
    let page = pages();
    let (_, section) = page.split_once("\n## JSON and YAML\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let shop = Shop::with(vec![shop_objects()], Vec::new()).await;
    let changed = Shop::with(emptied(), Vec::new()).await;
    let leftovers = Shop::with(cleanup::objects(), Vec::new()).await;
    let mut names = BTreeSet::new();
    for (cluster, command, kind) in [
        (&shop, &["explain", "frontend"][..], "ServiceExplanation"),
        (&shop, &["explain", "nobody"], "ServiceExplanation"),
        (&shop, &["explain", "pod", "frontend-7dfbff9db-gnqg8"], "PodExplanation"),
        (&shop, &["lint", "--info"], "LintReport"),
        (&changed, &["diff"], "Diff"),
        (&leftovers, &["cleanup"], "Cleanup"),
    ] {
        let output = cluster.run(&[command, &["-o", "json"]].concat()).await;
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["kind"], kind, "{command:?}");
        assert!(section.contains(&format!("`apiVersion: {}`", json["apiVersion"].as_str().unwrap())));
        assert!(section.contains(&format!("`{kind}`")), "{kind}");
        fields(&json, &mut names);
    }
    assert!(names.len() > 50, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !section.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/kubectl-plugin.md describes none of {missing:?}");
}

#[test]
fn dots_stand_for_any_lines() {
    let want = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert!(matches(&want("a … d"), &["a", "b", "c", "d"]));
    assert!(matches(&want("a … b"), &["a", "b"]));
    assert!(!matches(&want("a … c"), &["a", "b"]));
    assert!(!matches(&want("a"), &["a", "b"]));
    assert!(matches(&["at 05Z (6m45s).".to_owned()], &["at 05Z (9d)."]));
    assert!(!matches(&["at 05Z (6m45s).".to_owned()], &["at 06Z (6m45s)."]));
}
