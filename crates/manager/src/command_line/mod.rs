//! Reads options from the command line, the environment and a file.
//!
//! A flag of the command line wins over the environment variable of the same name, and that over
//! the field of the file of `--config`. This turns variables and fields into words of a command
//! line, so that clap parses all three by the same rules.

mod environment;
mod fields;
mod file;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::flag_values::flag_values;
use crate::options::{Options, add_ignored_flags, ignored_flags};
use crate::settings::{InvalidOption, Settings};

pub use file::ConfigFileError;

/// The options and their origins.
#[derive(Clone, Debug)]
pub struct CommandLine {
    pub options: Options,
    /// The value of each flag, from whatever origin; see [`flag_values`](crate::flag_values).
    pub flags: BTreeMap<String, String>,
    origins: BTreeMap<String, Origin>,
    ignored: Vec<(&'static str, &'static str)>,
    unknown_variables: Vec<String>,
}

/// The origin of a value that is not on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Variable(String),
    /// A field of the file of `--config`.
    File {
        path: PathBuf,
        line: u64,
        field: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::File { path, line, field } => write!(f, "{}: line {line}: field {field}", path.display()),
        }
    }
}

/// The error of options that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CommandLineError {
    /// The command line is invalid, or it asks for the help text or the version.
    #[error(transparent)]
    Arguments(#[from] clap::Error),
    /// The file of `--config` is unreadable or invalid.
    #[error(transparent)]
    File(#[from] ConfigFileError),
    /// A value of the environment or of the file is invalid, or conflicts with others.
    #[error("{0}")]
    Value(String),
}

/// Returns the command, with the flags of kube-controller-manager that change nothing here.
pub fn command() -> Command {
    add_ignored_flags(Options::command())
}

impl CommandLine {
    /// Reads the options of matches of [`command`], of the environment variables that begin with
    /// `KEM_`, and of the file that `--config` or `KEM_CONFIG` names.
    ///
    /// `words` are those of the command line, with the name of the program first; `variables` are
    /// those of the environment.
    ///
    /// # Errors
    ///
    /// If any of them is invalid, or the command line asks for the help text or the version.
    pub fn read(
        words: impl IntoIterator<Item = OsString>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, CommandLineError> {
        Self::read_with(command(), words, variables)
    }

    /// As [`Self::read`], with a command that the caller has made from [`command`] by adding to it.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_with(
        command: Command,
        words: impl IntoIterator<Item = OsString>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, CommandLineError> {
        let mut words: Vec<OsString> = words.into_iter().map(with_dashes).collect();
        // Flags may depend on others from the environment or the file, so the last parse checks
        // that they go together.
        let alone = command.clone().mut_args(without_relations);
        let given = alone.clone().try_get_matches_from(&words)?;
        let mut ignored: Vec<_> = ignored_flags(&given).collect();
        let environment = environment::read(&command, variables);
        let mut origins = BTreeMap::new();
        let mut added = Vec::new();
        for (arg, name, value) in environment.values {
            if !is_given(&given, arg.get_id().as_str()) {
                let origin = Origin::Variable(name);
                let value = fields::switch(&arg, value).map_err(|why| invalid(&origin, &why))?;
                add(&arg, value, origin, &mut added, &mut origins)?;
            }
        }
        let with_environment = alone.try_get_matches_from(after_name(&words, &added))?;
        if let Some(path) = with_environment.get_one::<PathBuf>("config") {
            for field in file::read(path, &command)? {
                let id = field.arg.get_id().as_str();
                if is_given(&given, id) || origins.contains_key(&flag(&field.arg)) {
                    continue;
                }
                let origin = Origin::File { path: path.clone(), line: field.line, field: field.name };
                add(&field.arg, field.values, origin, &mut added, &mut origins)?;
            }
        }
        words = after_name(&words, &added);
        let matches =
            command.clone().try_get_matches_from(words).map_err(|error| explain(error, &origins))?;
        let mut options = Options::from_arg_matches(&matches)?;
        options.unset_empty_paths();
        if options.auth.authentication_tolerate_lookup_failure {
            let reason = "if the cluster's certificate authorities cannot be read, serving always goes on without them";
            ignored.push(("authentication-tolerate-lookup-failure", reason));
        }
        if options.is_embedded() && options.leader_election.leader_elect_identity_file.is_some() {
            let reason = "the API server of --embedded ends with the process, and the lease with it";
            ignored.push(("leader-elect-identity-file", reason));
        }
        let mut flags = flag_values(&command, &matches);
        // The defaults of these depend on other flags.
        flags.insert("leader-elect".to_owned(), options.elects_leader().to_string());
        flags.insert("secure-port".to_owned(), options.port().to_string());
        Ok(Self { options, flags, origins, ignored, unknown_variables: environment.unknown })
    }

    /// Returns [`Self::flags`] for a process with these settings: flags whose default depends on
    /// others have the value in use.
    pub fn flags_in_use(&self, settings: &Settings) -> BTreeMap<String, String> {
        let mut flags = self.flags.clone();
        let mut set = |flag: &str, value: &str| flags.insert(flag.to_owned(), value.to_owned());
        if let Some(serving) = &settings.serving {
            set("tls-min-version", serving.min_tls_version.as_str());
        }
        if let Some(election) = &settings.leader_election {
            set("leader-elect-resource-name", &election.name);
            if let Some(identity) = &election.identity {
                set("leader-elect-identity", identity);
            }
        }
        flags
    }

    /// Logs a warning about each flag and variable that changes nothing.
    pub fn log_warnings(&self) {
        for (flag, reason) in &self.ignored {
            tracing::warn!("--{flag} of kube-controller-manager is ignored: {reason}");
        }
        for variable in &self.unknown_variables {
            tracing::warn!("the environment variable {variable} is ignored: no flag has this name");
        }
    }

    /// Returns the error with the place of the value, unless the value is on the command line.
    pub fn locate(&self, error: &InvalidOption) -> String {
        match self.origins.get(&error.option) {
            Some(origin) => format!("{origin}: invalid value {:?}: {}", error.value, error.why),
            None => error.to_string(),
        }
    }
}

fn flag(arg: &Arg) -> String {
    format!("--{}", arg.get_long().unwrap_or_default())
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn invalid(origin: &Origin, why: &str) -> CommandLineError {
    CommandLineError::Value(format!("{origin}: {why}"))
}

/// Returns the words with others inserted after the name of the program.
fn after_name(words: &[OsString], added: &[OsString]) -> Vec<OsString> {
    let (name, rest) = words.split_at(words.len().min(1));
    [name, added, rest].concat()
}

/// Checks the values of one flag and adds them as words.
fn add(
    arg: &Arg,
    values: Vec<OsString>,
    origin: Origin,
    added: &mut Vec<OsString>,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), CommandLineError> {
    let flag = flag(arg);
    let alone = Command::new("x").arg(without_relations(arg.clone()));
    for value in values {
        let word = fields::word(arg, &flag, &value);
        if let Err(error) = alone.clone().try_get_matches_from([OsStr::new("x"), &word]) {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let why = first.rsplit_once(&format!("'{flag}")).and_then(|(_, rest)| rest.split_once("': "));
            let why = why.map_or(first.trim_start_matches("error: "), |(_, why)| why);
            return Err(invalid(&origin, &format!("invalid value {:?}: {why}", value.display().to_string())));
        }
        added.push(word);
    }
    origins.insert(flag, origin);
    Ok(())
}

fn without_relations(arg: Arg) -> Arg {
    arg.requires(Resettable::Reset).conflicts_with(Resettable::Reset)
}

/// Adds the places of flags that are not on the command line to an error about flags that do not go
/// together.
fn explain(error: clap::Error, origins: &BTreeMap<String, Origin>) -> CommandLineError {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let named = |flag: &str| first.split(['\'', ' ', '=', '[']).any(|word| word == flag);
    let places: Vec<String> = origins
        .iter()
        .filter(|(flag, _)| named(flag))
        .map(|(flag, origin)| format!("{flag} comes from {origin}"))
        .collect();
    if places.is_empty() {
        return error.into();
    }
    CommandLineError::Value(format!("{first}; {}", places.join(", ")))
}

/// kube-controller-manager takes `_` for `-` in the names of flags.
fn with_dashes(word: OsString) -> OsString {
    let Some(text) = word.to_str().filter(|text| text.starts_with("--")) else { return word };
    let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    (name.replace('_', "-") + value).into()
}

#[cfg(test)]
mod tests;
