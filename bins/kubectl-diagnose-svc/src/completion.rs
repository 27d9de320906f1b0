//! Completes commands, flags and names.
//!
//! kubectl calls a program `kubectl_complete-diagnose_svc` with the words of the command line, to
//! complete the last one. It expects one candidate a line, with a description after a tab, and a
//! number at the end that says what else the shell may complete (Cobra's `ShellCompDirective`).
//! That program is a script that calls `kubectl-diagnose_svc __complete`.
//!
//! [`wanted`] is pure: it finds the wanted candidates from the words.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Arg, CommandFactory};
use kube::api::ListParams;
use kube_endpoint_core_model::is_harmless;
use kube_endpoint_explain::{Code, references};
use serde_json::Value;

use crate::args::{CommandLine, Kind as Subject, Shell};
use crate::config_flags::ConfigFlags;
use crate::connect::connect;
use crate::output::print;
use kube_endpoint_explain_reader::{Reader, Resource, newest_resource};

/// The word that kubectl's script puts before the words to complete.
pub(crate) const REQUEST: &str = "__complete";

/// A shell that waits longer for candidates is worse than one without them.
const PATIENCE: Duration = Duration::from_secs(3);

/// The file name of the plugin.
const PROGRAM: &str = "kubectl-diagnose_svc";

/// The script that kubectl calls.
const SCRIPT: &str = "#!/usr/bin/env sh\nexec kubectl-diagnose_svc __complete \"$@\"\n";

/// The shell must not add file names.
const NO_FILES: u8 = 4;
/// No space follows the candidate.
const NO_SPACE: u8 = 2;
/// The shell completes file names.
const FILES: u8 = 0;

/// Prints a script.
pub(crate) fn print_script(shell: Shell) -> anyhow::Result<u8> {
    let shell = match shell {
        Shell::Kubectl => {
            print(SCRIPT)?;
            return Ok(0);
        }
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
        Shell::Powershell => clap_complete::Shell::PowerShell,
    };
    let mut script = Vec::new();
    let mut command = CommandLine::command().bin_name(PROGRAM);
    clap_complete::generate(shell, &mut command, PROGRAM, &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// The word that asks for the man pages, which `release/build` packs.
pub(crate) const MAN_PAGES: &str = "__man";

/// Writes a man page for each command into a folder.
pub(crate) fn write_man_pages(folder: &OsString) -> anyhow::Result<()> {
    Ok(clap_mangen::generate_to(CommandLine::command(), folder)?)
}

/// A name of objects that the cluster or the kubeconfig has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    Namespaces,
    Services,
    Pods,
    Contexts,
    Clusters,
    Users,
    /// Objects that send clients to Services.
    Referrers(&'static str),
}

/// The wanted candidates.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// One of these candidates, each with a description.
    One {
        candidates: Vec<(String, String)>,
        directive: u8,
    },
    /// A name, after some text that is not a part of it.
    Name {
        names: Names,
        before: String,
        prefix: String,
    },
    File,
}

/// Prints the candidates for the last word, and never an error: the user is typing.
pub(crate) async fn complete(words: &[OsString]) -> anyhow::Result<()> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (wanted, flags) = wanted(&words);
    let (candidates, directive) = match wanted {
        Wanted::One { candidates, directive } => (candidates, directive),
        Wanted::File => (Vec::new(), FILES),
        Wanted::Name { names, before, prefix } => {
            let found = tokio::time::timeout(PATIENCE, names_of(names, &flags)).await;
            let all_names = found.ok().and_then(Result::ok).unwrap_or_default();
            // A shell inserts this output into the command line.
            let matching = all_names
                .into_iter()
                .filter(|name| name.starts_with(&prefix) && name.chars().all(is_harmless));
            let mut all: Vec<_> = matching.map(|name| (format!("{before}{name}"), String::new())).collect();
            let mut directive = NO_FILES;
            if names == Names::Services && before.is_empty() && "pod/".starts_with(&prefix) {
                all.push(("pod/".to_owned(), "explain a pod".to_owned()));
                directive |= if all.len() == 1 { NO_SPACE } else { 0 };
            }
            (all, directive)
        }
    };
    let line = |(candidate, description): &(String, String)| match &**description {
        "" => format!("{candidate}\n"),
        description => format!("{candidate}\t{description}\n"),
    };
    let lines: String = candidates.iter().map(line).collect();
    print(&format!("{lines}:{directive}\n"))
}

/// Returns the candidates that can complete the last word.
fn wanted(words: &[String]) -> (Wanted, ConfigFlags) {
    let root = CommandLine::command();
    let Some((last, words)) = words.split_last() else {
        return (subcommands(&root, ""), ConfigFlags::default());
    };
    let mut command = &root;
    let mut given: Vec<String> = Vec::new();
    let long = |flag: &Arg| format!("--{}", flag.get_long().unwrap_or_default());
    let with = |flag: &Arg, value: &str| format!("{}={value}", long(flag));
    let mut pending: Option<&Arg> = None;
    let mut positional = 0;
    let mut latest = "";
    for word in words {
        if let Some(flag) = pending.take() {
            given.push(with(flag, word));
        } else if let Some((flag, value)) = flag_of(&root, command, word) {
            match value {
                Some(value) => given.push(with(flag, value)),
                None if flag.get_action().takes_values() => pending = Some(flag),
                None => given.push(long(flag)),
            }
        } else if word.starts_with('-') {
            // An unknown flag; the parser reports it.
        } else if let Some(subcommand) = command.find_subcommand(word).filter(|_| positional == 0) {
            command = subcommand;
        } else {
            positional += 1;
            latest = word;
        }
    }
    let wanted = if let Some(flag) = pending {
        values(flag, last)
    } else if let Some((flag, Some(value))) = flag_of(&root, command, last) {
        values(flag, value)
    } else if last.starts_with('-') {
        flags(&root, command, last)
    } else if command.get_name() == root.get_name() {
        subcommands(&root, last)
    } else {
        match command.get_positionals().nth(positional) {
            // The kind is before the name.
            Some(argument) if argument.get_id() == "name" => match Subject::of(latest) {
                Some(kind) => {
                    Wanted::Name { names: names_of_kind(kind), before: String::new(), prefix: last.clone() }
                }
                None => Wanted::One { candidates: Vec::new(), directive: NO_FILES },
            },
            Some(argument) => values(argument, last),
            None => Wanted::One { candidates: Vec::new(), directive: NO_FILES },
        }
    };
    (wanted, ConfigFlags::of_words(&given))
}

/// Returns the flag of a word, and its value after `=`, or after a letter.
fn flag_of<'a, 'w>(
    root: &'a clap::Command,
    command: &'a clap::Command,
    word: &'w str,
) -> Option<(&'a Arg, Option<&'w str>)> {
    let all = || command.get_arguments().chain(root.get_arguments());
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return all().find(|arg| arg.get_long() == Some(name)).map(|arg| (arg, value));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let arg = all().find(|arg| arg.get_short() == Some(letter))?;
    let rest = letters.as_str();
    Some((arg, Some(rest.strip_prefix('=').unwrap_or(rest)).filter(|rest| !rest.is_empty())))
}

fn subcommands(root: &clap::Command, prefix: &str) -> Wanted {
    let visible = root.get_subcommands().filter(|command| !command.is_hide_set());
    let of = |command: &clap::Command| (command.get_name().to_owned(), about(command.get_about()));
    let candidates = visible.map(of).filter(|(name, _)| name.starts_with(prefix)).collect();
    Wanted::One { candidates, directive: NO_FILES }
}

fn flags(root: &clap::Command, command: &clap::Command, prefix: &str) -> Wanted {
    let visible = command.get_arguments().chain(root.get_arguments()).filter(|arg| !arg.is_hide_set());
    let of = |arg: &Arg| Some((format!("--{}", arg.get_long()?), about(arg.get_help())));
    let mut candidates: Vec<(String, String)> =
        visible.filter_map(of).filter(|(flag, _)| flag.starts_with(prefix)).collect();
    candidates.sort();
    candidates.dedup();
    Wanted::One { candidates, directive: NO_FILES }
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the possible values of a flag or of an argument.
fn values(arg: &Arg, prefix: &str) -> Wanted {
    let name = |names, before: &str, prefix: &str| Wanted::Name {
        names,
        before: before.to_owned(),
        prefix: prefix.to_owned(),
    };
    match arg.get_id().as_str() {
        "kubeconfig"
        | "filename"
        | "audit_log"
        | "metrics"
        | "certificate_authority"
        | "client_certificate"
        | "client_key" => Wanted::File,
        "manager_namespace" => name(Names::Namespaces, "", prefix),
        "namespace" => name(Names::Namespaces, "", prefix),
        "context" => name(Names::Contexts, "", prefix),
        "cluster" => name(Names::Clusters, "", prefix),
        "user" => name(Names::Users, "", prefix),
        "subject" => match prefix.split_once('/') {
            None => name(Names::Services, "", prefix),
            Some((kind, prefix)) => {
                let names = Subject::of(kind).map_or(Names::Services, names_of_kind);
                name(names, &format!("{kind}/"), prefix)
            }
        },
        "ignore" => {
            // In a list, the text before the last comma stays.
            let (before, prefix) = match prefix.rfind(',') {
                Some(at) => prefix.split_at(at + 1),
                None => ("", prefix),
            };
            let of = |code: &Code| (format!("{before}{}", code.id()), code.title().to_owned());
            let is_wanted = |code: &&Code| code.id().starts_with(prefix);
            let candidates = Code::ALL.iter().filter(is_wanted).map(of).collect();
            Wanted::One { candidates, directive: NO_FILES }
        }
        _ => {
            let possible = arg.get_possible_values();
            let of =
                |value: &clap::builder::PossibleValue| (value.get_name().to_owned(), about(value.get_help()));
            let candidates = possible.iter().map(of).filter(|(value, _)| value.starts_with(prefix)).collect();
            Wanted::One { candidates, directive: NO_FILES }
        }
    }
}

fn names_of_kind(kind: Subject) -> Names {
    match kind {
        Subject::Service => Names::Services,
        Subject::Pod => Names::Pods,
        Subject::Referrer(kind) => Names::Referrers(kind),
    }
}

/// Reads the names.
async fn names_of(names: Names, flags: &ConfigFlags) -> anyhow::Result<Vec<String>> {
    let kind = match names {
        Names::Namespaces => Resource::NAMESPACES,
        Names::Pods => Resource::PODS,
        Names::Services => Resource::SERVICES,
        Names::Referrers(kind) => match newest_resource(kind) {
            Some(resource) => resource,
            None => return Ok(Vec::new()),
        },
        Names::Contexts => {
            return Ok(flags.kubeconfig()?.contexts.into_iter().map(|context| context.name).collect());
        }
        Names::Clusters => {
            return Ok(flags.kubeconfig()?.clusters.into_iter().map(|cluster| cluster.name).collect());
        }
        Names::Users => {
            return Ok(flags.kubeconfig()?.auth_infos.into_iter().map(|user| user.name).collect());
        }
    };
    let connection = connect(flags).await?;
    let is_namespaced = !matches!(names, Names::Namespaces)
        && !matches!(names, Names::Referrers(kind) if !references::is_namespaced(kind));
    let namespace = Some(&*connection.namespace).filter(|_| is_namespaced);
    let reader = Reader::new(connection.client.kube().clone());
    let add = |names: &mut Vec<String>, metadata: Value| {
        names.extend(metadata["name"].as_str().map(str::to_owned));
        Ok(())
    };
    let listed = reader.list_metadata(kind, namespace, ListParams::default(), add).await?;
    Ok(listed.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> (Wanted, ConfigFlags) {
        wanted(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    /// Returns a text for the candidates of a line, or for the names to read.
    fn text(line: &str) -> String {
        match ask(line).0 {
            Wanted::One { candidates, directive } => {
                let names: Vec<String> = candidates.into_iter().map(|(name, _)| name).collect();
                assert_eq!(directive, NO_FILES);
                names.join(" ")
            }
            Wanted::Name { names, before, prefix } => format!("{names:?} {before:?} {prefix:?}"),
            Wanted::File => "file".to_owned(),
        }
    }

    #[test]
    fn commands_flags_and_values_are_completed() {
        for (line, want) in [
            ("", "explain render diff lint top cleanup doctor retire ui completion"),
            ("ex", "explain"),
            ("x", ""),
            ("-n shop l", "lint"),
            (
                "lint -",
                "--all-namespaces --as --as-group --as-uid --as-user-extra --at --certificate-authority --client-certificate \
                 --client-key --cluster --color --compatibility --context --fail-on --filename --ignore --info \
                 --insecure-skip-tls-verify --kubeconfig --namespace --output --request-timeout --selector --server --strict --tls-server-name --token --user",
            ),
            ("lint --co", "--color --compatibility --context"),
            ("lint -o ", "table wide json yaml sarif"),
            ("lint --fail-on ", "error warning never"),
            ("lint -o j", "json"),
            ("lint -oy", "yaml"),
            ("lint --output=s", "sarif"),
            ("lint --color a", "auto always"),
            ("completion ", "kubectl bash zsh fish powershell"),
            ("lint --ignore EP00", "EP000 EP001"),
            ("lint --ignore EP000,EP061", "EP000,EP061"),
            ("diff extra", ""),
        ] {
            assert_eq!(text(line), want, "{line:?}");
        }
    }

    #[test]
    fn names_are_read_from_the_cluster_and_the_kubeconfig() {
        for (line, want) in [
            ("explain ", r#"Services "" """#),
            ("explain fr", r#"Services "" "fr""#),
            ("explain svc/fr", r#"Services "svc/" "fr""#),
            ("explain pod/fr", r#"Pods "pod/" "fr""#),
            ("explain pod fr", r#"Pods "" "fr""#),
            ("explain svc ", r#"Services "" """#),
            ("explain -n ", r#"Namespaces "" """#),
            ("explain --namespace=sh", r#"Namespaces "" "sh""#),
            ("--context ", r#"Contexts "" """#),
            ("--cluster ", r#"Clusters "" """#),
            ("lint --user=j", r#"Users "" "j""#),
            ("lint --kubeconfig ", "file"),
            ("lint --client-key ", "file"),
            ("render -f a", "file"),
            ("explain web -f ", "file"),
            ("retire --audit-log a", "file"),
            ("retire --metrics=", "file"),
        ] {
            assert_eq!(text(line), want, "{line:?}");
        }
        assert_eq!(text("explain web "), "");
    }

    #[test]
    fn the_server_is_taken_from_the_flags_before() {
        let (_, flags) = ask(
            "--context=kind explain -nshop --kubeconfig file --as jane --insecure-skip-tls-verify --as-group=a --as-group b lint -o json fr",
        );
        let some = |text: &str| Some(text.to_owned());
        let want = ConfigFlags {
            kubeconfig: some("file").map(Into::into),
            context: some("kind"),
            namespace: some("shop"),
            insecure_skip_tls_verify: true,
            as_user: some("jane"),
            as_group: vec!["a".to_owned(), "b".to_owned()],
            ..ConfigFlags::default()
        };
        assert_eq!(flags, want);
    }
}
