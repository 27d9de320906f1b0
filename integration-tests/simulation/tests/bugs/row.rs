//! A row, and the macro that makes rows and the tests that play their histories.

use kube_endpoint_simulation::{History, Outcome, report, simulate, simulate_with_transcript};

use super::projects::Project;

/// A bug that somebody has reported in public.
pub(super) struct Bug {
    /// The project and the number, such as `kubernetes_112143`.
    pub(super) name: &'static str,
    pub(super) shown: Shown,
    pub(super) fault: &'static str,
    pub(super) answer: &'static str,
}

/// The proof that it cannot happen here.
pub(super) enum Shown {
    /// A file in `tests/histories`, without its ending.
    History(&'static str),
    /// A path from `crates/` or from the root, and the name of a test.
    Test(&'static str),
}

/// The rows about one subject.
pub(super) struct Theme {
    pub(super) heading: &'static str,
    pub(super) bugs: &'static [Bug],
}

impl Bug {
    /// Returns the project and the number of the report.
    pub(super) fn report(&self) -> (Project, &'static str) {
        let (project, number) = self.name.rsplit_once('_').unwrap();
        (Project::of(project), number)
    }

    /// Returns the title, such as `kubernetes#112143`.
    pub(super) fn title(&self) -> String {
        let (project, number) = self.report();
        format!("{}#{number}", project.name)
    }
}

/// Defines the rows of a theme. `name = "history"` plays a history in a test of that name;
/// `name with "history"` leaves that to a test in the same file, which checks more; and
/// `name in "path.rs::test"` names a test. The two texts say what went wrong, and why not here.
macro_rules! bugs {
    ($heading:literal; $($name:ident $how:tt $by:literal, $fault:literal, $answer:literal;)*) => {
        pub(super) const ROWS: super::row::Theme = super::row::Theme {
            heading: $heading,
            bugs: &[$(super::row::Bug {
                name: stringify!($name),
                shown: shown_by!($how $by),
                fault: $fault,
                answer: $answer,
            }),*],
        };
        $(test_of!($name $how $by);)*
    };
}

macro_rules! shown_by {
    (in $test:literal) => {
        super::row::Shown::Test($test)
    };
    ($how:tt $history:literal) => {
        super::row::Shown::History($history)
    };
}

macro_rules! test_of {
    ($name:ident = $history:literal) => {
        #[test]
        fn $name() {
            super::row::play($history);
        }
    };
    ($name:ident with $history:literal) => {
        const _: fn() = $name;
    };
    ($name:ident in $test:literal) => {};
}

fn history(name: &str) -> History {
    History::named(name).unwrap_or_else(|error| panic!("{error:#}"))
}

fn judge(name: &str, history: &History, outcome: &Outcome) {
    if let Some(violation) = &outcome.violation {
        panic!("{name}: {}", report(history, violation));
    }
    assert!(
        outcome.without_effect.is_empty(),
        "steps of {name} without effect: {:#?}",
        outcome.without_effect
    );
}

/// Plays a history: all rules hold, and each step has an effect.
pub(super) fn play(name: &str) {
    let history = history(name);
    judge(name, &history, &simulate(&history));
}

/// As [`play`]. Returns the lines of the transcript.
pub(super) fn play_with_transcript(name: &str) -> Vec<String> {
    let history = history(name);
    let outcome = simulate_with_transcript(&history);
    judge(name, &history, &outcome);
    outcome.transcript.into_iter().map(|line| line.text).collect()
}
