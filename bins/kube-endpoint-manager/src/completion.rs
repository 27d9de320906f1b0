//! `completion bash|zsh|fish`: prints a script that completes flags in a shell. `__man FOLDER`
//! writes the man page into a folder; `release/build` calls it.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use kube_endpoint_controllers::Options;

const PROGRAM: &str = "kube-endpoint-manager";
const NAME: &str = "completion";

/// The part of the program's help text about completions.
pub(crate) const USAGE: &str =
    "kube-endpoint-manager completion bash|zsh|fish prints a script that completes flags in a shell.";

/// Returns the subcommand. It is not part of the command that runs the controllers, which would
/// then take each misplaced word for the name of a subcommand.
fn subcommand() -> Command {
    let shell = Arg::new("shell")
        .required(true)
        .value_name("SHELL")
        .help("The shell")
        .value_parser(PossibleValuesParser::new(["bash", "zsh", "fish"]));
    Command::new(NAME)
        .about("Print a script that completes flags in bash, zsh or fish")
        .after_help(
            "bash: source <(kube-endpoint-manager completion bash)\n\
             zsh:  source <(kube-endpoint-manager completion zsh)\n\
             fish: kube-endpoint-manager completion fish | source",
        )
        .arg(shell)
}

/// Returns the script, if the command line asks for one.
///
/// # Errors
///
/// An error if the shell is missing or not supported, or if the command line asks for help.
pub(crate) fn requested(words: &[OsString]) -> Result<Option<Vec<u8>>, clap::Error> {
    if words.get(1).is_none_or(|word| word != NAME) {
        return Ok(None);
    }
    let matches = subcommand().bin_name(format!("{PROGRAM} {NAME}")).try_get_matches_from(&words[1..])?;
    let shell = match matches.get_one::<String>("shell").map(String::as_str) {
        Some("zsh") => Shell::Zsh,
        Some("fish") => Shell::Fish,
        _ => Shell::Bash,
    };
    let mut script = Vec::new();
    // The script does not complete the flags of kube-controller-manager that change nothing here.
    let mut command = Options::command().subcommand(subcommand());
    clap_complete::generate(shell, &mut command, PROGRAM, &mut script);
    Ok(Some(script))
}

/// Writes the man page of a command, if the command line asks for it.
pub(crate) fn write_man_page(command: &Command, words: &[OsString]) -> Option<std::io::Result<()>> {
    match words {
        [_, word, folder] if word == "__man" => Some(clap_mangen::generate_to(command.clone(), folder)),
        _ => None,
    }
}
