//! Prints the functions of a program that were executed, for `bins/kube-endpoint-manager/functions.txt`:
//!
//! ```text
//! function_order PROGRAM PROFILE...
//! ```
//!
//! Each profile is the output of `valgrind --tool=callgrind --demangle=no PROGRAM`. The functions of the first profile come first.

use std::collections::HashSet;
use std::process::ExitCode;
use std::{env, fs, io};

use kube_endpoint_benches::function_order::executed;

const HEADER: &str = "\
# Functions that the program executes: those of the first profile, then further ones of the others, and of each those with most calls
# first. build.rs hands them to the linker, which puts them beside one another.
# Written by `just functions`.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [program, profiles @ ..] = &*arguments else { return fail("which program?") };
    if profiles.is_empty() {
        return fail("which profiles of Callgrind?");
    }
    let program = match fs::canonicalize(program) {
        Ok(path) => path.display().to_string(),
        Err(error) => return fail(&format!("{program}: {error}")),
    };
    let (mut seen, mut all) = (HashSet::new(), HEADER.to_owned());
    for path in profiles {
        let profile = match fs::read_to_string(path) {
            Ok(profile) => profile,
            Err(error) => return fail(&format!("{path}: {error}")),
        };
        let functions = executed(&profile, &program);
        if functions.is_empty() {
            return fail(&format!("{path} has no function of {program}"));
        }
        for function in functions {
            if seen.insert(function.clone()) {
                all.push_str(&function);
                all.push('\n');
            }
        }
    }
    match io::Write::write_all(&mut io::stdout(), all.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

#[expect(clippy::print_stderr, reason = "it is a program")]
fn fail(message: &str) -> ExitCode {
    eprintln!("function_order: {message}\nusage: function_order PROGRAM PROFILE...");
    ExitCode::FAILURE
}
