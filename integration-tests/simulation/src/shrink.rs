//! Makes a failing history shorter, so that a person sees the steps that cause the failure.

use std::time::Duration;

use crate::history::{Action, History, Step};

/// Returns the shortest history found that fails as `fails` says, by delta debugging: it drops
/// smaller and smaller chunks of steps, then shortens times. It tries at most `tries` histories.
pub fn shrink(history: &History, tries: usize, mut fails: impl FnMut(&History) -> bool) -> History {
    let mut left = tries;
    let mut try_it = |steps: Vec<Step>, left: &mut usize| {
        let shorter = History { setup: history.setup.clone(), steps };
        *left = left.saturating_sub(1);
        fails(&shorter).then_some(shorter.steps)
    };
    let mut steps = history.steps.clone();
    let mut chunk = steps.len().div_ceil(2);
    while chunk > 0 && left > 0 {
        let mut at = 0;
        let mut dropped = false;
        while at < steps.len() && left > 0 {
            let mut shorter = steps.clone();
            shorter.drain(at..(at + chunk).min(steps.len()));
            match try_it(shorter, &mut left) {
                Some(shorter) => (steps, dropped) = (shorter, true),
                None => at += chunk,
            }
        }
        if !dropped || chunk > 1 {
            chunk /= 2;
        }
    }
    for at in 0..steps.len() {
        for shorten in [to_the_step_before, halved_fault] {
            while left > 0
                && let Some(shorter) = shorten(&steps, at)
                && let Some(shorter) = try_it(shorter, &mut left)
            {
                steps = shorter;
            }
        }
    }
    History { setup: history.setup.clone(), steps }
}

/// Moves a step and all later ones so that half of the time since the step before is left.
fn to_the_step_before(steps: &[Step], at: usize) -> Option<Vec<Step>> {
    let before = if at == 0 { Duration::ZERO } else { steps[at - 1].at };
    let gap = steps[at].at - before;
    if gap < Duration::from_millis(200) {
        return None;
    }
    let less = Duration::from_millis(gap.as_millis() as u64 / 2);
    let mut steps = steps.to_vec();
    steps[at..].iter_mut().for_each(|step| step.at -= less);
    Some(steps)
}

fn halved_fault(steps: &[Step], at: usize) -> Option<Vec<Step>> {
    let mut steps = steps.to_vec();
    let Action::Fault(lasts, _) = &mut steps[at].action else { return None };
    if *lasts < Duration::from_millis(200) {
        return None;
    }
    *lasts = Duration::from_millis(lasts.as_millis() as u64 / 2);
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(steps: &[&str]) -> History {
        let steps = steps.iter().map(|step| step.parse().unwrap()).collect();
        History { setup: History::of(0).setup, steps }
    }

    #[test]
    fn only_the_steps_that_are_needed_stay() {
        let all: Vec<String> =
            (0..40).map(|pod| format!("00:00:{pod:02}.000 delete-pod pod={pod}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut tries = 0;
        let shrunk = shrink(&history(&all), 200, |history| {
            tries += 1;
            let has = |pod| {
                history.steps.iter().any(|step| step.action.to_string() == format!("delete-pod pod={pod}"))
            };
            has(7) && has(33)
        });
        let steps: Vec<String> = shrunk.steps.iter().map(|step| step.action.to_string()).collect();
        assert_eq!(steps, ["delete-pod pod=7", "delete-pod pod=33"]);
        assert!(shrunk.steps[1].at < Duration::from_millis(500), "times are shortened: {shrunk}");
        assert!(tries <= 200);
    }

    #[test]
    fn a_fault_becomes_as_short_as_the_failure_allows() {
        let long = history(&["00:00:01.000 for 02:00:00.000 unreachable by=none"]);
        let shrunk = shrink(&long, 100, |history| {
            history
                .steps
                .iter()
                .any(|step| matches!(step.action, Action::Fault(lasts, _) if lasts.as_secs() >= 60))
        });
        let Action::Fault(lasts, _) = shrunk.steps[0].action else { panic!() };
        assert!((60..120).contains(&lasts.as_secs()));
    }

    #[test]
    fn tries_are_bounded() {
        let mut tries = 0;
        let failing = history(&["00:00:01.000 delete-pod pod=1", "00:00:02.000 delete-pod pod=2"]);
        shrink(&failing, 1, |_| {
            tries += 1;
            false
        });
        assert_eq!(tries, 1);
    }
}
