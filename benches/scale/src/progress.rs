//! Shows progress bars on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows how much of a piece of work is done. Dropping it removes the bar.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Returns a bar of this number of steps.
    pub(crate) fn steps(what: impl Into<String>, steps: usize) -> Self {
        Self::on(
            ProgressDrawTarget::stderr(),
            "{msg}  {bar:32}  {pos} of {len}, {eta} left",
            what.into(),
            steps,
        )
    }

    /// Returns a line for work of unknown length.
    pub(crate) fn waiting(what: impl Into<String>) -> Self {
        Self::on(ProgressDrawTarget::stderr(), "{msg}  {elapsed}", what.into(), 0)
    }

    fn on(target: ProgressDrawTarget, template: &str, what: String, steps: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what);
        bar.set_draw_target(target);
        Self(bar)
    }

    /// Adds a finished step.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Sets the number of finished steps.
    pub(crate) fn at(&self, done: usize) {
        self.0.set_position(done as u64);
    }

    /// Shows the time that has passed.
    pub(crate) fn tick(&self) {
        self.0.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    #[test]
    fn steps_move_the_bar_and_the_end_removes_it() {
        let term = InMemoryTerm::new(4, 100);
        let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
        let progress = Progress::on(target, "{msg}  {bar:8}  {pos} of {len}", "making pods".into(), 4);
        progress.at(1);
        progress.step();
        progress.tick();
        assert_eq!(term.contents(), "making pods  ====>     2 of 4");
        drop(progress);
        assert_eq!(term.contents(), "");
    }
}
