//! Histories: the steps of a run with their times, as plain data that a seed determines and that
//! has a text.

mod change;
mod fault;
mod named;
mod pieces;
mod process;
mod profile;
mod request_fault;
mod setup;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use change::{Change, Identity, Readiness, Retirement, Rule, TargetPort};
pub use fault::{Fault, Kind, Manager, Selection, Verb, sender};
pub use process::Process;
pub use profile::Profile;
pub use request_fault::{RequestClass, RequestFault};
pub use setup::Setup;

use crate::text::{Field, TextError};

/// The action of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Change(Change),
    /// A fault begins, and ends after this time.
    Fault(Duration, Fault),
    /// An action on a process, a clock or the storage.
    Process(Process),
}

/// An action, and its time since the start of the managers.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub at: Duration,
    pub action: Action,
}

/// The settings of a run and its steps, in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    pub setup: Setup,
    /// The steps. Those at 0 come before the managers start.
    pub steps: Vec<Step>,
}

impl History {
    /// Returns the history of a seed. A share of the seeds belongs to each profile.
    pub fn of(seed: u64) -> Self {
        profile::history(Profile::of(seed), seed)
    }

    /// Returns the history of a seed in one profile.
    pub fn with_profile(profile: Profile, seed: u64) -> Self {
        profile::history(profile, seed)
    }

    /// Returns the time at which the last step is over.
    pub fn end(&self) -> Duration {
        let ends = self.steps.iter().map(|step| match &step.action {
            Action::Fault(lasts, _) => step.at + *lasts,
            Action::Process(
                Process::SecondLeader { seconds }
                | Process::Suspend { seconds }
                | Process::SuspendPastLease { seconds },
            ) => step.at + Duration::from_secs((*seconds).into()),
            Action::Change(_) | Action::Process(_) => step.at,
        });
        ends.max().unwrap_or_default()
    }
}

impl Action {
    /// Returns the word of the step.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Change(change) => change.word(),
            Self::Fault(_, fault) => fault.word(),
            Self::Process(process) => process.word(),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(change) => change.fmt(f),
            Self::Fault(lasts, fault) => write!(f, "for {} {fault}", lasts.write()),
            Self::Process(process) => process.fmt(f),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at.write(), self.action)
    }
}

/// Prints a line with the setup, then one line for each step.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setup)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl FromStr for Step {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let time = |field, text: &str| {
            Duration::read(text).ok_or_else(|| TextError::Field { field, text: text.to_owned() })
        };
        let (at, rest) = text.trim().split_once(' ').unwrap_or((text, ""));
        let at = time("time", at)?;
        if let Some(rest) = rest.strip_prefix("for ") {
            let (lasts, fault) = rest.split_once(' ').unwrap_or((rest, ""));
            return Ok(Self { at, action: Action::Fault(time("duration", lasts)?, fault.parse()?) });
        }
        let action = match rest.parse::<Change>() {
            Err(TextError::Unknown(_)) => Action::Process(rest.parse()?),
            change => Action::Change(change?),
        };
        Ok(Self { at, action })
    }
}

/// Parses the lines, and skips empty ones and those that begin with `#`.
impl FromStr for History {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let setup = lines.next().unwrap_or_default().parse()?;
        let mut steps = lines.map(str::parse).collect::<Result<Vec<Step>, _>>()?;
        steps.sort_by_key(|step| step.at);
        Ok(Self { setup, steps })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_history_is_read_as_it_is_written() {
        let others = [Profile::Beside, Profile::Leading, Profile::Retired];
        let others = (0..40).flat_map(|seed| others.map(|profile| History::with_profile(profile, seed)));
        for history in (0..200).map(History::of).chain(others) {
            let text = history.to_string();
            assert_eq!(text.parse::<History>().as_ref(), Ok(&history), "{text}");
        }
    }

    #[test]
    fn a_seed_determines_its_history() {
        assert_eq!(History::of(7), History::of(7));
        assert_ne!(History::of(7).steps, History::of(7 + Profile::ALL.len() as u64).steps);
    }

    #[test]
    fn every_change_every_fault_and_every_process_step_occurs_in_300_seeds() {
        let of_seeds = (0..300).flat_map(|seed| History::of(seed).steps);
        let others = [Profile::Beside, Profile::Leading, Profile::Retired];
        let others = (0..40).flat_map(|seed| others.map(|profile| History::with_profile(profile, seed)));
        let steps = of_seeds.chain(others.flat_map(|history| history.steps));
        let seen: BTreeSet<&str> = steps.map(|step| step.action.word()).collect();
        let all = [Change::WORDS, Fault::WORDS, Process::WORDS].concat();
        let named = [Process::AT_REQUEST, Fault::FORBIDDEN];
        let is_missing = |word: &&&str| !seen.contains(**word) && !named.contains(*word);
        let missing: Vec<&&str> = all.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn steps_are_in_the_order_of_time() {
        for seed in 0..100 {
            assert!(History::of(seed).steps.is_sorted_by_key(|step| step.at), "{seed}");
        }
    }

    #[track_caller]
    fn check_error(text: &str, want: &str) {
        assert_eq!(text.parse::<Step>().unwrap_err().to_string(), want);
    }

    #[test]
    fn errors_name_the_word_or_the_field() {
        check_error("00:00:01.000 fly", r#""fly" is not the name of a step"#);
        check_error(
            "00:00:01.000 delete-pod pod=x",
            r#"the field pod of "delete-pod pod=x" is missing or has no valid value"#,
        );
        check_error("soon delete-pod pod=1", r#"the field time of "soon" is missing or has no valid value"#);
    }
}
