//! Tests of GitHub's workflows that need no GitHub: what they run exists, and none of their steps
//! is so long that it belongs into a script which runs elsewhere, too.

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};

use serde_json::{Value, json};

use crate::deploy::manifests::{documents, root};

/// A step: the file of its workflow, and the step.
type Step = (String, Value);

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for entry in read_dir(root().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let workflow = &documents(&read_to_string(&path).unwrap())[0];
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for job in workflow["jobs"].as_object().unwrap().values() {
            steps.extend(job["steps"].as_array().unwrap().iter().map(|step| (name.clone(), step.clone())));
        }
    }
    assert!(steps.len() > 20, "only {} steps", steps.len());
    steps
}

/// Returns the commands of all steps.
fn commands() -> String {
    steps().iter().filter_map(|(_, step)| step["run"].as_str()).map(|run| format!("{run}\n")).collect()
}

/// An action's tag may move to other code, and a step that only GitHub runs is a step without a
/// test.
pub(crate) fn actions_are_pinned_and_steps_are_short() {
    for (workflow, step) in steps() {
        match (step["uses"].as_str(), step["run"].as_str()) {
            (Some(uses), None) => {
                let commit = uses.split_once('@').unwrap_or_default().1;
                let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
                assert!(is_commit, "{workflow}: {uses} is no commit");
            }
            (None, Some(run)) => {
                assert!(run.lines().count() <= 3, "{workflow}: more than three lines:\n{run}");
            }
            _ => panic!("{workflow}: a step has either `uses` or `run`: {step}"),
        }
    }
}

/// A token that may write is an attacker's aim. Only single jobs get more than reading.
pub(crate) fn tokens_may_only_read_unless_a_job_needs_more() {
    let mut jobs_that_write = BTreeSet::new();
    for entry in read_dir(root().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let workflow = &documents(&read_to_string(&path).unwrap())[0];
        assert_eq!(workflow["permissions"], json!({"contents": "read"}), "{}", path.display());
        let jobs = workflow["jobs"].as_object().unwrap();
        jobs_that_write.extend(
            jobs.iter().filter(|(_, job)| !job["permissions"].is_null()).map(|(name, _)| name.clone()),
        );
    }
    assert_eq!(jobs_that_write, ["codeql", "publish"].map(str::to_owned).into());
}

pub(crate) fn files_and_options_exist() {
    let commands = commands();
    let is_part = |c: char| c.is_alphanumeric() || "/-_.".contains(c);
    let words: BTreeSet<&str> = commands.split(|c| !is_part(c)).collect();
    let files: Vec<&&str> =
        words.iter().filter(|word| word.starts_with(".ci/") || word.starts_with("release/")).collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        assert!(root().join(file).exists(), "there is no {file}");
    }
    let workflow = read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let image = workflow.lines().find_map(|line| line.trim().strip_prefix("IMAGE: ")).unwrap();
    for (name, least) in [("release/build", 2), ("release/publish", 1)] {
        let script = read_to_string(root().join(name)).unwrap();
        let usage = script.lines().find(|line| line.starts_with(&format!("#     {name} "))).unwrap();
        let calls: Vec<&str> = commands.lines().filter(|line| line.contains(&format!("{name} "))).collect();
        assert!(calls.len() >= least, "{calls:?}");
        for option in calls.iter().flat_map(|call| call.split(' ')).filter(|word| word.starts_with("--")) {
            assert!(usage.contains(option), "{name} has no {option}");
        }
        // Both name the image that the workflow pushes.
        assert!(script.contains(&format!("IMAGE={image}\n")), "{name} has another image than {image}");
    }
    // release/build refuses a tree that differs from its commit.
    let ignored = read_to_string(root().join(".gitignore")).unwrap();
    for folder in commands.split("--out ").skip(1).filter_map(|rest| rest.split_whitespace().next()) {
        assert!(ignored.contains(&format!("/{folder}\n")), ".gitignore lacks /{folder}");
    }
    let publish = read_to_string(root().join("release/publish")).unwrap();
    let charts = publish.lines().find_map(|line| line.strip_prefix("readonly CHARTS=")).unwrap();
    assert!(workflow.contains(&format!(" oci://{charts}\n")), "the workflow pushes charts elsewhere");
}
