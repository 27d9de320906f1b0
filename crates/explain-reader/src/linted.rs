//! Reads and checks all Services.

use std::collections::BTreeSet;

use kube_endpoint_core_model::{Text, Timestamp};
use kube_endpoint_explain::{Code, Lint, LintOptions, LintReport, Objects, Options, lint};

use crate::{ReadError, Reader, Reading, may_tell_more};

/// A check of Services, and what it was made of.
pub struct Linted {
    pub report: LintReport,
    pub objects: Objects,
    /// The time of the reading.
    pub at: Timestamp,
}

/// The findings of a check, with which the next one compares. The lists of a changing cluster do
/// not show the same moment, so a write that is under way looks like a problem.
#[derive(Clone, Debug)]
pub struct Before {
    pub problems: Vec<Lint>,
    gone: BTreeSet<Text>,
}

impl Linted {
    /// Returns what the next check compares with.
    pub fn before(&self) -> Before {
        Before { problems: self.report.problems.clone(), gone: self.objects.gone_pods() }
    }

    /// Returns the report without the problems that may only be writes under way: those of such
    /// codes that were not there before.
    pub fn lasting(self, before: Option<&Before>, may_pass: impl Fn(Code) -> bool) -> LintReport {
        self.report.lasting(before.map_or(&[], |before| &before.problems), may_pass)
    }
}

impl Reader {
    /// Reads and checks all Services of a namespace, or of all, as [`Self::all`] and [`lint()`] do.
    /// After a check that found late writes, this reads why: events about failures, and Leases.
    ///
    /// # Errors
    ///
    /// As [`Self::all`].
    pub async fn lint(
        &self,
        namespace: Option<&str>,
        options: &Options,
        lint_options: &LintOptions,
        before: Option<&Before>,
        now: impl Fn() -> Timestamp,
    ) -> Result<Linted, ReadError> {
        let Reading { mut objects, notes, known, .. } = self.all(namespace).await?;
        if let Some(Before { problems, gone }) = before {
            objects.note_gone_before(gone.clone());
            if problems.iter().any(|problem| may_tell_more(problem.code)) {
                self.failures(&mut objects, namespace).await;
            }
        }
        let notes = [notes, options.lacking(&objects)].concat();
        let (options, at) = (options.clone().with_known(known), now());
        let lint_options = LintOptions { namespace: namespace.map(Text::from), ..lint_options.clone() };
        #[expect(
            clippy::disallowed_methods,
            reason = "a page or keys are served meanwhile; no run is repeated"
        )]
        let checked =
            tokio::task::spawn_blocking(move || (lint(&objects, at, &options, &lint_options), objects));
        let (report, objects) = match checked.await {
            Ok(checked) => checked,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        Ok(Linted { report: report.with_not_read(notes), objects, at })
    }
}
