//! The report for people, in Markdown.

use std::fmt::Write;

use kube_endpoint_controllers::harmless;

use super::{
    HandOver, Judged, NOTHING_PLAYED, Outcome, Played, Recording, Report, Written, counted, not_deleted,
};

/// The most characters of a cell.
const LONGEST_CELL: usize = 300;

/// The most changes that the report shows; it counts all.
const MOST_CHANGES: usize = 5;

impl Report {
    /// Returns the report in Markdown.
    pub fn markdown(&self) -> String {
        let mut page = format!("# Conformance on Kubernetes {}\n\n", line(&self.server.version));
        let [passed, failed, skipped] = self.counts();
        let recordings = counted(self.recordings.len(), "recording");
        let hand_over = self.hand_over.to_string();
        let hand_over = hand_over.lines().next().unwrap_or_default();
        let nodes = match self.own_nodes {
            0 => "none besides those of the recordings".to_owned(),
            count => format!("{count} besides those of the recordings; recorded hints are not compared"),
        };
        let mut result = format!("{recordings}, {passed} passed, {failed} failed, {skipped} skipped");
        if passed + failed == 0 {
            result = format!("failed: {NOTHING_PLAYED} ({result})");
        }
        let rows = [
            ("date", format!("{:.0}", self.started)),
            ("server", format!("{}, {}", self.server.version, self.server.platform)),
            ("nodes", nodes),
            (
                "program",
                format!(
                    "kube-endpoint-manager {}, as with `--compatibility=upstream`",
                    env!("CARGO_PKG_VERSION")
                ),
            ),
            ("result", result),
            ("hand-over", hand_over.to_owned()),
        ];
        for (name, value) in rows {
            let _ = writeln!(page, "- {name}: {}", line(&value));
        }
        page += "\n";
        page += &self.judged.explained();
        page += "\n## Recordings\n\n";
        page += &self.recordings();
        self.recordings.iter().for_each(|recording| page += &details(recording));
        page += "\n## Hand-over\n\n";
        page += &match &self.hand_over {
            HandOver::Skipped(reason) => format!("Not played: {}.\n", line(reason)),
            HandOver::Failed(reason) => {
                format!("It could not be played to its end:\n\n{}", fenced("text", reason))
            }
            HandOver::Played(played) => hand_over_played(played),
        };
        if let Some(reason) = &self.left_over {
            let _ = writeln!(page, "\n## Left over\n\n{}", not_deleted(&line(reason)));
        }
        page
    }

    fn recordings(&self) -> String {
        let is_plan = matches!(self.judged, Judged::Plan { .. });
        let rows = self.recordings.iter().map(|recording| {
            let result = match &recording.outcome {
                Outcome::Passed => "passed".to_owned(),
                Outcome::Skipped(reason) => format!("skipped: {reason}"),
                Outcome::Failed(failures) => format!("**failed** in {}", counted(failures.len(), "step")),
            };
            let recorded = match (&recording.outcome, recording.differs.len()) {
                (Outcome::Skipped(_), _) => String::new(),
                (_, 0) => "yes".to_owned(),
                (_, steps) => format!("no, in {}", counted(steps, "step")),
            };
            let seconds = format!("{:.1}", recording.took.as_secs_f64());
            let mut row = vec![recording.name.clone(), result, seconds];
            if is_plan {
                row.insert(2, recorded);
            }
            row
        });
        let head: &[&str] = if is_plan {
            &["recording", "result", "as recorded", "seconds"]
        } else {
            &["recording", "result", "seconds"]
        };
        table(head, rows)
    }
}

impl Judged {
    /// Returns a paragraph that says how the recordings were judged.
    fn explained(&self) -> String {
        match self {
            Self::ThisProgram => "Nothing else writes endpoints in this cluster. This program's controllers wrote, in the namespaces of\n\
                the recordings alone, and each recording compares their outputs with those of kube-controller-manager 1.36.\n"
                .to_owned(),
            Self::Plan { writers } => format!(
                "The cluster's own controllers write endpoints (`{}`), so this program's controllers did not. The requests of\n\
                each recording were made, the cluster's controllers wrote, and this program's plan over the same objects must change\n\
                nothing. *As recorded* says if they wrote the same as kube-controller-manager 1.36.\n",
                line(writers)
            ),
        }
    }
}

fn details(recording: &Recording) -> String {
    let mut text = String::new();
    if let Outcome::Failed(failures) = &recording.outcome {
        let _ = writeln!(text, "\n### {}\n", line(&recording.name));
        for failure in failures {
            let _ =
                writeln!(text, "Step \"{}\":\n\n{}", line(&failure.step), fenced("diff", &failure.report));
        }
    }
    if let [(step, difference), ..] = &*recording.differs {
        let _ = writeln!(text, "\n### {}: other than recorded\n", line(&recording.name));
        let _ = writeln!(text, "Step \"{}\":\n\n{}", line(step), fenced("diff", difference));
    }
    text.replace("\n\n\n", "\n\n")
}

fn hand_over_played(played: &Played) -> String {
    let counts = [
        format!("{} by {}", counted(played.outputs, "output"), played.upstream),
        format!("{} on their own outputs", writes(&played.again)),
        format!("{} by this program", writes(&played.taken_over)),
        format!(
            "{}, {} by this program",
            counted(played.changed_pods, "changed pod"),
            counted(played.written, "written output")
        ),
        format!("{} by kube-controller-manager's loops", writes(&played.back)),
    ];
    let failed = played.parts();
    let before = ["kube-controller-manager's loops write", "they start again"].map(|part| (part, None));
    let results = before.into_iter().chain(failed);
    let rows = results.zip(counts).map(|((part, failed), count)| {
        let result = failed.map_or("passed".to_owned(), |reason| format!("**failed**: {reason}"));
        vec![part.to_owned(), count, result]
    });
    let mut text = table(&["part", "count", "result"], rows);
    text += "\nA write counts if it changed the version of an output. One that changed the trigger time alone is no failure.\n";
    for left_out in &played.left_out {
        let _ = writeln!(text, "\nLeft out: {}", line(left_out));
    }
    for (who, written) in [
        ("the loops at their second start", &played.again),
        ("this program", &played.taken_over),
        ("kube-controller-manager's loops", &played.back),
    ] {
        text += &changes(who, written);
    }
    if !played.still_due.is_empty() {
        let _ = writeln!(
            text,
            "\nStill due after the pods had changed:\n\n{}",
            fenced("diff", &played.still_due)
        );
    }
    text
}

/// Returns how many writes there were, and how many of them changed the trigger time alone.
fn writes(written: &[Written]) -> String {
    let writes = counted(written.len(), "write");
    match written.iter().filter(|it| it.is_trigger_time_alone).count() {
        0 => writes,
        alone => format!("{writes} ({alone} of the trigger time alone)"),
    }
}

fn changes(who: &str, written: &[Written]) -> String {
    let mut text = String::new();
    if !written.is_empty() {
        let _ = writeln!(text, "\n### Written by {who}");
    }
    for Written { object, change, .. } in written.iter().take(MOST_CHANGES) {
        let _ = writeln!(text, "\n{}:\n\n{}", line(object), fenced("diff", change).trim_end());
    }
    if let Some(more) = written.len().checked_sub(MOST_CHANGES).filter(|more| *more > 0) {
        let _ = writeln!(text, "\nand {more} more");
    }
    text
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> =
            row.iter().map(|cell| harmless(cell, LONGEST_CELL).replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// Returns a text on one line.
fn line(text: &str) -> String {
    harmless(text, LONGEST_CELL).into_owned()
}

/// Returns a block of code that the text cannot end.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: Vec<_> = text.lines().map(|line| harmless(line, usize::MAX)).collect();
    format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
}
