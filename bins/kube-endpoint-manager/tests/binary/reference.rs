//! Compares the tables of docs/reference.md with the flags and gates of the program.

use std::path::Path;

use clap::{Arg, CommandFactory as _};
use kube_endpoint_controllers::Options;

const BEGIN: &str =
    "<!-- The tables are generated: UPDATE_DOCS=1 cargo test -p kube-endpoint-manager reference -->\n";

/// Returns a text as a cell of a table, in which no character begins anything.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "\\<").replace('`', "")
}

fn row(flag: &Arg) -> String {
    let short = flag.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let takes_value = flag.get_action().takes_values();
    let value = flag.get_value_names().filter(|_| takes_value).and_then(<[_]>::first);
    let value = value.map(|name| match flag.is_require_equals_set() {
        true => format!("[={name}]"),
        false => format!(" {name}"),
    });
    let value = value.unwrap_or_default();
    let defaults = flag.get_default_values().iter().map(|it| it.to_string_lossy()).collect::<Vec<_>>();
    let default =
        if defaults.is_empty() || !takes_value { String::new() } else { format!("`{}`", defaults.join(",")) };
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| `{short}--{}{value}` | {default} | {} |\n", flag.get_long().unwrap_or_default(), cell(&help))
}

/// The flags, under the headings of `--help`.
fn flags() -> String {
    let command = Options::command();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
        if !headings.contains(&flag.get_help_heading()) {
            headings.push(flag.get_help_heading());
        }
    }
    let mut text = String::new();
    for heading in headings {
        text +=
            &format!("### {}\n\n| flag | default | meaning |\n|---|---|---|\n", heading.unwrap_or("General"));
        let of_heading = command.get_arguments().filter(|flag| flag.get_help_heading() == heading);
        text.extend(of_heading.filter(|flag| !flag.is_hide_set()).map(row));
        text.push('\n');
    }
    text
}

/// The gates, from the long help of their flag.
fn gates() -> String {
    let command = Options::command();
    let flag = command.get_arguments().find(|flag| flag.get_long() == Some("feature-gates")).unwrap();
    let help = flag.get_long_help().unwrap().to_string();
    let mut text = "## Feature gates\n\n[Parity](parity.md#deviations-with-a-gate) describes each.\n\n\
                    | gate | stage | default | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for line in help.lines() {
        let parts = line.split_once("=true|false (").and_then(|(name, rest)| {
            let (stage, rest) = rest.split_once(" - default=")?;
            let (default, meaning) = rest.split_once("): ")?;
            Some((name, stage, default, meaning))
        });
        let Some((name, stage, default, meaning)) = parts else { continue };
        text += &format!("| `{name}` | {stage} | {default} | {} |\n", cell(meaning));
    }
    text
}

#[test]
fn the_reference_lists_all_flags_and_gates() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, written) = page.split_once(BEGIN).expect("docs/reference.md has no tables");
    let tables = format!("\n## Flags\n\n{}{}", flags(), gates());
    assert!(tables.matches("\n| `").count() > 70, "{tables}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{tables}")).unwrap();
    } else {
        let missing: Vec<&str> =
            tables.lines().filter(|line| !written.lines().any(|it| it == *line)).collect();
        let stale: Vec<&str> = written.lines().filter(|line| !tables.lines().any(|it| it == *line)).collect();
        assert!(
            missing.is_empty() && stale.is_empty(),
            "docs/reference.md is out of date (its tables begin with the command that updates them).\n\
             missing: {missing:#?}\nstale: {stale:#?}"
        );
    }
}
