//! What of the recordings cannot pass yet, and for want of which controller.
//!
//! The list can only shrink: a scenario on it is compared with the parts it needs, and when it passes, the suite
//! fails until it is taken off. A scenario that is not on it must pass with the parts that are [`BUILT`].

use super::{Failure, Part, Parts};

/// The parts that this project's controllers write by now.
pub const BUILT: Parts = Parts::ALL;

/// A scenario that is expected to fail.
#[derive(Debug, Clone, Copy)]
pub struct Missing {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The parts without which it cannot pass.
    pub needs: &'static [Part],
}

/// The scenarios that are expected to fail.
pub const MISSING: &[Missing] = &[];

/// The entry of a scenario, if it has one.
pub fn missing(scenario: &str) -> Option<&'static Missing> {
    MISSING.iter().find(|entry| entry.scenario == scenario)
}

/// The parts by which a scenario is compared: what is built, and what it is listed to need.
pub fn parts_of(scenario: &str) -> Parts {
    let needs = missing(scenario).map_or(&[][..], |entry| entry.needs);
    needs.iter().fold(BUILT, |parts, part| parts.and(*part))
}

/// What the outcome of a scenario means to the suite: nothing, or the reason why the suite fails.
pub fn judge(scenario: &str, failures: &[Failure]) -> Option<String> {
    match (missing(scenario), failures.is_empty()) {
        (None, true) | (Some(_), false) => None,
        (Some(entry), true) => Some(format!(
            "{scenario} is listed to need {:?} but passes: remove it from the list in missing.rs",
            entry.needs
        )),
        (None, false) => Some(failures.iter().map(ToString::to_string).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Scenario, recordings};
    use super::*;

    #[test]
    fn every_entry_names_a_recording_once_and_something_that_is_not_built() {
        let mut seen = std::collections::BTreeSet::new();
        for Missing { scenario, needs } in MISSING {
            assert!(seen.insert(scenario), "{scenario} is listed twice");
            Scenario::recorded(scenario).unwrap();
            let all_built = needs.iter().all(|part| BUILT.and(*part) == BUILT);
            assert!(!all_built, "{scenario} needs only what is built: remove it from the list");
        }
    }

    #[test]
    fn every_scenario_compares_something() {
        for file in recordings().unwrap() {
            let scenario = Scenario::read(&file).unwrap();
            let parts = parts_of(&scenario.name);
            let compares = scenario.steps.iter().any(|step| parts.has_any_of(&step.expect));
            assert!(compares, "{} passes with nothing compared: list it with what it needs", scenario.name);
        }
    }

    #[test]
    fn a_scenario_that_is_not_listed_must_pass() {
        let failure = Failure { step: "create".to_owned(), report: "-1\n+2\n".to_owned() };
        assert_eq!(judge("no-such-scenario", &[]), None);
        insta::assert_snapshot!(judge("no-such-scenario", &[failure]).unwrap(), @r#"
        step: create
            -1
            +2
        "#);
    }

    #[test]
    fn a_listed_scenario_must_fail() {
        let Some(entry) = MISSING.first() else { return };
        assert!(judge(entry.scenario, &[]).unwrap().contains("remove it from the list"));
        let failure = Failure { step: "create".to_owned(), report: String::new() };
        assert_eq!(judge(entry.scenario, &[failure]), None);
    }
}
