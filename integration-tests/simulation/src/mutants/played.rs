//! Plays histories on a build of the product, and reads the results.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::text::Field;

/// The rule of a history that panicked, as [`run_seeds`](crate::run_seeds) reports it.
pub(crate) const NOTHING_PANICS: &str = "nothing panics";
/// The time between two checks for the end of a process.
const STEP: Duration = Duration::from_millis(50);

/// The result of a process that plays histories. Only [`Self::Failed`] catches a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Played {
    /// All rules held.
    Held,
    /// A rule did not hold.
    Failed { seed: u64, rule: String },
    /// The process, or a history in it, ended without a failed rule. It has written this.
    Crashed(String),
    /// The process did not end in time.
    TimedOut(Duration),
}

impl Played {
    /// Runs `simulate` until it ends.
    ///
    /// # Errors
    ///
    /// The system's error, if it does not run the program.
    pub fn run(program: &Path, arguments: &[&str], limit: Duration) -> io::Result<Self> {
        let (mut output, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(errors.try_clone()?);
        let mut child = command.spawn()?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Self::of(status, &read(&mut output)?, &read(&mut errors)?));
            }
            if began.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                return Ok(Self::TimedOut(limit));
            }
            thread::sleep(STEP);
        }
    }

    fn of(status: ExitStatus, output: &str, errors: &str) -> Self {
        if status.success() {
            return Self::Held;
        }
        match output.lines().find_map(violation) {
            Some((seed, rule)) if rule != NOTHING_PANICS => Self::Failed { seed, rule },
            _ => {
                let said: Vec<&str> = errors.lines().filter(|line| !line.trim().is_empty()).collect();
                // The message of a panic follows its place.
                let lines = match said.iter().position(|line| line.contains("panicked at")) {
                    Some(line) => &said[line..said.len().min(line + 2)],
                    None => &said[said.len().saturating_sub(1)..],
                };
                Self::Crashed(format!("{status}: {}", lines.join(" ")))
            }
        }
    }
}

fn read(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the seed and the rule of a printed violation, `seed SEED: TIME RULE: OBJECT: DETAIL`, or
/// the number and the law of a world, `world NUMBER: LAW: DETAIL`.
fn violation(line: &str) -> Option<(u64, String)> {
    if let Some(world) = line.strip_prefix("world ") {
        let (number, broken) = world.split_once(": ")?;
        let (law, _) = broken.split_once(": ")?;
        return Some((number.parse().ok()?, law.to_owned()));
    }
    let (seed, violation) = line.strip_prefix("seed ")?.split_once(": ")?;
    let (time, rest) = violation.split_once(' ')?;
    Duration::read(time)?;
    let (rule, _) = rest.split_once(": ")?;
    Some((seed.parse().ok()?, rule.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script in place of the program.
    #[track_caller]
    fn check(script: &str, want: &Played) {
        let limit = Duration::from_secs(if matches!(want, Played::TimedOut(_)) { 0 } else { 60 });
        assert_eq!(&Played::run(Path::new("sh"), &["-c", script], limit).unwrap(), want, "{script}");
    }

    #[test]
    fn only_a_printed_violation_of_a_rule_is_a_failure() {
        let failed = |seed, rule: &str| Played::Failed { seed, rule: rule.to_owned() };
        let crashed = |said: &str| Played::Crashed(said.to_owned());
        check("echo 'seed 7: 00:01:02.500 a rule: default/s0: a: b'; exit 1", &failed(7, "a rule"));
        check("echo text; echo 'seed 12: 30:00:00.000 a rule: : '; exit 1", &failed(12, "a rule"));
        check("echo 'world 9: a law: detail: more'; exit 1", &failed(9, "a law"));
        check("echo 'all rules held'", &Played::Held);
        check("echo 'Error: no such file' >&2; exit 1", &crashed("exit status: 1: Error: no such file"));
        check("echo 'seed 7: soon: it fails'; exit 1", &crashed("exit status: 1: "));
        check(
            "echo \"thread 'main' panicked at lib.rs:1:1:\" >&2; echo empty >&2; echo note >&2; exit 101",
            &crashed("exit status: 101: thread 'main' panicked at lib.rs:1:1: empty"),
        );
        check(
            "echo 'seed 7: 00:00:00.000 nothing panics: : see the standard error output'; exit 1",
            &crashed("exit status: 1: "),
        );
        check("sleep 60", &Played::TimedOut(Duration::ZERO));
    }
}
