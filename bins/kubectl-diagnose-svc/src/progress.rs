//! A progress bar on a terminal, while the program reads a list of several pages.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kube_endpoint_explain_reader::Progress;

/// Shows how much of a list the program has read. A list of one page shows nothing.
pub(crate) struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Returns a progress on standard error, if that is a terminal.
    pub(crate) fn on_stderr() -> Self {
        Self::on(ProgressDrawTarget::stderr())
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let style = ProgressStyle::with_template("Reading {msg}  {bar:24}  {pos} of {len}");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_draw_target(target);
        Self(bar)
    }
}

impl Progress for ProgressLine {
    fn page(&self, plural: &str, read: usize, remaining: Option<i64>) {
        let remaining = remaining.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        if self.0.is_finished() {
            self.0.reset();
        }
        let as_u64 = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.0.set_message(plural.to_owned());
        self.0.set_length(as_u64(read + remaining));
        self.0.set_position(as_u64(read));
        self.0.tick();
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        // After an error, the message must not share a line with the bar.
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{InMemoryTerm, TermLike};

    #[test]
    fn each_page_moves_the_bar_and_the_end_removes_it() {
        let term = InMemoryTerm::new(4, 80);
        assert_eq!(term.width(), 80);
        let progress = ProgressLine::on(ProgressDrawTarget::term_like(Box::new(term.clone())));
        progress.page("pods", 500, Some(1500));
        assert_eq!(term.contents(), "Reading pods  ======>                   500 of 2000");
        progress.page("pods", 1500, Some(500));
        assert_eq!(term.contents(), "Reading pods  ==================>       1500 of 2000");
        progress.end();
        assert_eq!(term.contents(), "");
        progress.page("endpointslices", 500, None);
        assert_eq!(term.contents(), "Reading endpointslices  ========================  500 of 500");
    }
}
