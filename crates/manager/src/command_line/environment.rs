//! Reads environment variables: `KEM_` and the name of a flag in upper case, with `_` for `-`.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::fields;

/// The beginning of all variables.
const PREFIX: &str = "KEM_";

/// The variables that begin with the prefix.
pub(super) struct Environment {
    /// Flags with the name of the variable and its value.
    pub(super) values: Vec<(Arg, String, OsString)>,
    /// Variables that belong to no flag, sorted.
    pub(super) unknown: Vec<String>,
}

/// Finds the flags of variables. A variable with an empty value counts as not set.
pub(super) fn read(
    command: &Command,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Environment {
    let mut environment = Environment { values: Vec::new(), unknown: Vec::new() };
    let ours = variables.into_iter().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        (name.starts_with(PREFIX) && !value.is_empty()).then_some((name, value))
    });
    for (name, value) in ours {
        match fields::settable(command).find(|arg| variable(arg) == name) {
            Some(arg) => environment.values.push((arg.clone(), name, value)),
            None => environment.unknown.push(name),
        }
    }
    environment.values.sort_by(|one, two| one.1.cmp(&two.1));
    environment.unknown.sort_unstable();
    environment
}

/// Returns the name of the variable of a flag.
pub(super) fn variable(arg: &Arg) -> String {
    PREFIX.to_owned() + &arg.get_long().unwrap_or_default().replace('-', "_").to_uppercase()
}
