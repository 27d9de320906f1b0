//! Prints patterns of the functions of a program that were executed, for `bins/kube-endpoint-manager/functions.txt`:
//!
//! ```text
//! function_order PROFILE...
//! ```
//!
//! Each profile is what `valgrind --tool=callgrind --demangle=no --dump-instr=yes PROGRAM` writes. The functions of the first profile come
//! first. The programs may be different ones. It calls `nm` of GNU binutils.

use std::collections::HashSet;
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use kube_endpoint_benches::function_order::{executed, pattern, program, split_parts};

const HEADER: &str = "\
# Functions that the program executes: those of the first profile, then further ones of the others, and of each those with most calls
# first. build.rs hands them to the linker, which puts them beside one another. A `*` stands for what differs between builds. Those with
# `.cold` are parts of functions that a build with a profile takes out of them.
# Written by `just functions`.
";

fn main() -> ExitCode {
    let profiles: Vec<String> = env::args().skip(1).collect();
    if profiles.is_empty() {
        return fail("which profiles of Callgrind?");
    }
    let (mut seen, mut all) = (HashSet::new(), HEADER.to_owned());
    for path in &profiles {
        let profile = match fs::read_to_string(path) {
            Ok(profile) => profile,
            Err(error) => return fail(&format!("{path}: {error}")),
        };
        let Some(program) = program(&profile) else {
            return fail(&format!("{path} has no line 'cmd:': is it a profile of Callgrind?"));
        };
        let program = match fs::canonicalize(program) {
            Ok(path) => path.display().to_string(),
            Err(error) => return fail(&format!("{path} is a profile of {program}: {error}")),
        };
        let mut functions = executed(&profile, &program);
        // The standard library has such symbols whatever the flags are.
        if !functions.iter().any(|function| function.contains("kube_endpoint")) {
            return fail(&format!(
                "{path} has no function of this project: was {program} built with -Csymbol-mangling-version=v0?"
            ));
        }
        let symbols = Command::new("nm").args(["--defined-only", "--print-size", &program]).output();
        match symbols {
            Ok(symbols) if symbols.status.success() => {
                functions.extend(split_parts(&profile, &program, &String::from_utf8_lossy(&symbols.stdout)));
            }
            Ok(symbols) => return fail(&format!("nm: {}", String::from_utf8_lossy(&symbols.stderr).trim())),
            Err(error) => return fail(&format!("nm: {error}")),
        }
        for function in functions {
            let pattern = pattern(&function);
            if !seen.contains(&pattern) {
                all.push_str(&pattern);
                all.push('\n');
                seen.insert(pattern);
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
    eprintln!("function_order: {message}\nusage: function_order PROFILE...");
    ExitCode::FAILURE
}
