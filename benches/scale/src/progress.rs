//! Makes progress bars on standard error, if that is a terminal. Dropping a bar removes it.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// Returns a bar of this number of steps.
pub(crate) fn steps(what: impl Into<String>, steps: usize) -> ProgressBar {
    bar("{msg}  {bar:32}  {pos} of {len}, {eta} left", what.into(), steps)
}

/// Returns a line for work of unknown length.
pub(crate) fn waiting(what: impl Into<String>) -> ProgressBar {
    bar("{msg}  {elapsed}", what.into(), 0)
}

fn bar(template: &str, what: String, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps as u64)
        .with_style(style.progress_chars("=> "))
        .with_message(what)
        .with_finish(ProgressFinish::AndClear)
}
