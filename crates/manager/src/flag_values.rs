//! Collects the values of all flags: the data of `/flagz`.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Command};

use crate::configz::url;

/// Flags whose values are URLs, which may contain a password.
const URLS: [&str; 2] = ["master", "tracing-endpoint"];

/// Returns the value of each flag of `command` in `matches`, or its default, or an empty text.
/// Commas join several values, and URLs lose user and password. The map lacks flags that only ask
/// for something, such as `--help`, and hidden flags without a value.
pub fn flag_values(command: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let value = |arg: &Arg| {
        let raw = matches.get_raw(arg.get_id().as_str());
        let values = raw.into_iter().flatten().map(|value| value.to_string_lossy());
        let values = values.collect::<Vec<_>>().join(",");
        if values.is_empty() { values } else { shown(arg, values) }
    };
    let flags = command.get_arguments().filter(|arg| !asks(arg));
    let flags = flags.filter_map(|arg| {
        let value = value(arg);
        let shown = !arg.is_hide_set() || !value.is_empty();
        shown.then_some((arg.get_long()?.to_owned(), value))
    });
    flags.collect()
}

fn asks(arg: &Arg) -> bool {
    use clap::ArgAction::{Help, HelpLong, HelpShort, Version};

    matches!(arg.get_action(), Help | HelpShort | HelpLong | Version)
}

fn shown(arg: &Arg, value: String) -> String {
    match arg.get_long() {
        Some(flag) if URLS.contains(&flag) => url(&value),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Options;

    fn values(words: &[&str]) -> BTreeMap<String, String> {
        let command = Options::command();
        let matches = command.clone().get_matches_from(["x"].iter().chain(words));
        flag_values(&command, &matches)
    }

    #[test]
    fn flags_have_their_values_or_defaults() {
        let values = values(&["--kube-api-qps=7", "--namespaces=a,b", "--namespaces=c", "--dry-run"]);
        let check = |flag: &str, expected: &str| {
            assert_eq!(values.get(flag).map(String::as_str), Some(expected), "{flag}");
        };
        check("kube-api-qps", "7");
        check("kube-api-burst", "30");
        check("namespaces", "a,b,c");
        check("kubeconfig", "");
        check("dry-run", "true");
        check("disable-http2-serving", "false");
        assert!(!values.contains_key("help"));
    }

    #[test]
    fn passwords_in_urls_are_not_shown() {
        let values = values(&[
            "--master=https://admin:hidden@192.0.2.1:6443",
            "--tracing-endpoint=http://user:hidden@192.0.2.2:4317",
        ]);
        assert_eq!(values["master"], "https://192.0.2.1:6443/");
        assert!(values.values().all(|value| !value.contains("hidden")), "{values:?}");
    }
}
