//! The flags that a file or the environment can set, and the types of their values.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};
use kube_endpoint_core_model::go_bool;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Boolean,
    Whole,
    Number,
    /// Text, a duration or a path.
    Text,
    /// A list of texts; `featureGates` may also map names to booleans.
    List,
}

impl Type {
    pub(super) fn of(arg: &Arg) -> Self {
        let parsed = arg.get_value_parser().type_id();
        let is = |wanted: TypeId| parsed == wanted;
        if matches!(arg.get_action(), ArgAction::SetTrue) || is(TypeId::of::<bool>()) {
            Self::Boolean
        } else if matches!(arg.get_action(), ArgAction::Append) {
            Self::List
        } else if is(TypeId::of::<f64>()) {
            Self::Number
        } else if [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
        ]
        .into_iter()
        .any(is)
        {
            Self::Whole
        } else {
            Self::Text
        }
    }
}

/// Returns the flags that a file or the environment can set.
pub(super) fn settable(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        arg.get_long().is_some_and(|long| !matches!(long, "help" | "version")) && !arg.is_hide_set()
    })
}

/// Returns the name of a flag as a field of the file: `leader-elect` is `leaderElect`.
pub(super) fn field_name(arg: &Arg) -> String {
    let mut words = arg.get_long().unwrap_or_default().split('-');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// Returns the value of a flag as a list. A flag that takes no value has one element if the text is
/// true, and no element if it is false. Other flags keep the text.
pub(super) fn switch(arg: &Arg, value: OsString) -> Result<Vec<OsString>, String> {
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return Ok(vec![value]);
    }
    let text = value.to_str().unwrap_or_default();
    let on = go_bool::parse(text).ok_or_else(|| format!("invalid value {text:?}: write true or false"))?;
    Ok(if on { vec![value] } else { Vec::new() })
}

/// Returns the word of a command line that gives a flag this value.
pub(super) fn word(arg: &Arg, flag: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(flag);
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        word.push("=");
        word.push(value);
    }
    word
}
