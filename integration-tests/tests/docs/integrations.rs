//! The files of `deploy/integrations`: they have the fields that other tools read, and the plugin
//! understands each command line in them.

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use kube_endpoint_integration_tests::processes::plugin;
use serde_json::Value;

use super::root;

const FOLDER: &str = "deploy/integrations";

fn file(name: &str) -> String {
    read_to_string(root().join(FOLDER).join(name)).unwrap()
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&file(name)).unwrap()
}

/// Returns the command lines of the plugin in a text, up to a quote, a pipe or the end of the line.
fn command_lines(text: &str) -> Vec<&str> {
    let rests = text.split("kubectl diagnose-svc ").skip(1);
    rests.map(|rest| rest.split(['"', '|', '\n', '`']).next().unwrap_or_default().trim()).collect()
}

/// Returns the words of a command line, with values in place of those that a tool puts in.
fn words(line: &str) -> Vec<String> {
    let line = line.replace("{{ code }}", "EP012").replace("{{ ", "{{").replace(" }}", "}}");
    let filled = |word: &str| match word.split_once(['{', '$']) {
        Some((before, _)) => format!("{before}web"),
        None => word.trim_matches('\'').to_owned(),
    };
    line.split_whitespace().map(filled).collect()
}

/// Without a kubeconfig, a command that the plugin understands ends before it asks a server.
#[test]
fn the_plugin_understands_each_command_line() {
    let plugin = plugin(Path::new(env!("CARGO_BIN_EXE_apiserver-process")));
    let fails = |words: &[String]| {
        let output = Command::new(&plugin).args(words).env("KUBECONFIG", "/none").output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let is_refused =
            errors.contains("--help") || errors.contains("--brief") || errors.contains("is no kind");
        is_refused.then_some(errors)
    };
    let wrong = ["explain", "web", "--breif"].map(str::to_owned);
    assert!(fails(&wrong).is_some(), "a flag that does not exist is refused");
    let mut run = 0;
    for name in ["holmesgpt.yaml", "k9s-plugins.yaml", "tools.json"] {
        for line in command_lines(&file(name)) {
            assert_eq!(fails(&words(line)), None, "{name}: {line}");
            run += 1;
        }
    }
    assert!(run > 10, "{run}");
}

fn each<'v>(list: &'v Value, field: &str) -> &'v [Value] {
    list[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn has_texts(value: &Value, fields: &[&str]) -> bool {
    fields.iter().all(|field| value[field].as_str().is_some_and(|text| !text.is_empty()))
}

#[test]
fn the_files_have_the_fields_that_other_tools_read() {
    for (name, toolset) in yaml("holmesgpt.yaml")["toolsets"].as_object().unwrap() {
        assert!(has_texts(toolset, &["description"]) && !each(toolset, "tools").is_empty(), "{name}");
        assert!(
            each(toolset, "tools").iter().all(|it| has_texts(it, &["name", "description", "command"])),
            "{name}"
        );
    }
    let mut keys = BTreeSet::new();
    for (name, one) in yaml("k9s-plugins.yaml")["plugins"].as_object().unwrap() {
        assert!(has_texts(one, &["shortCut", "description", "command"]), "{name}");
        for scope in each(one, "scopes") {
            assert!(
                keys.insert((scope.to_string(), one["shortCut"].to_string())),
                "{name}: the key is taken"
            );
        }
    }
    assert_eq!(keys.len(), 3);
    let tools: Value = serde_json::from_str(&file("tools.json")).unwrap();
    for tool in each(&tools, "tools") {
        assert!(has_texts(tool, &["name", "description", "command"]), "{tool}");
        let schema = &tool["inputSchema"];
        let described: BTreeSet<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let command = tool["command"].as_str().unwrap();
        let used: BTreeSet<&str> =
            command.split("{{ ").skip(1).filter_map(|rest| rest.split(" }}").next()).collect();
        let required: BTreeSet<&str> = each(schema, "required").iter().filter_map(Value::as_str).collect();
        assert_eq!((&described, &required), (&used, &used), "{command}");
    }
}
