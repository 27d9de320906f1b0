//! Parts of sentences and commands that several findings have.

use kube_endpoint_core_model::Text;

use crate::Step;

/// The maximum number of names in a sentence.
const NAMES_IN_A_SENTENCE: usize = 5;

/// The maximum number of objects in one command.
const OBJECTS_IN_A_COMMAND: usize = 20;

/// Lists the first names, and the number of the others.
pub(super) fn names(names: &[Text]) -> String {
    let listed: Vec<&str> = names.iter().take(NAMES_IN_A_SENTENCE).map(|name| &**name).collect();
    match names.len().saturating_sub(NAMES_IN_A_SENTENCE) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// Returns the commands for all of these objects.
pub(super) fn each(names: &[Text], command: impl Fn(&[&str]) -> Step) -> impl Iterator<Item = Step> {
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let steps: Vec<Step> = names.chunks(OBJECTS_IN_A_COMMAND).map(command).collect();
    steps.into_iter()
}
