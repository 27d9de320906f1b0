//! Prints the report of `doctor`.

use kube_endpoint_core_model::Timestamp;

use super::document::{Document, Emphasis, Layout, plain, span};
use super::explanation::number;
use super::table::Table;
use crate::answers::doctor::{Answer, Changes, InstanceReport, LeaseState, Missing, OutputsReport, Report};
use crate::facts::age;

impl Answer {
    /// Returns the word for the answer, or `other` if there is none.
    fn word(self, yes: &'static str, no: &'static str) -> &'static str {
        match self {
            Self::Yes => yes,
            Self::No => no,
            Self::NotKnown => "not known",
        }
    }
}

impl Report {
    /// Returns one screen. A wide one has the pods, too.
    pub fn text(&self, layout: Layout, now: Timestamp) -> Document {
        let mut document = Document::default();
        let (word, emphasis) = match self.exit_code() {
            0 => ("FINE", Emphasis::Good),
            1 => ("TO DO", Emphasis::Bad),
            _ => ("NOT KNOWN", Emphasis::Warning),
        };
        let unknown = "not known".to_owned();
        let versions = format!(
            "Server {}, plugin {}, kube-endpoint-manager {}, kube-controller-manager {}.",
            self.versions.server.as_ref().unwrap_or(&unknown),
            self.versions.plugin,
            images(&self.versions.managers),
            images(&self.versions.kube_controller_managers),
        );
        document.sentence(vec![span(word, emphasis), plain("  ")], &versions, Emphasis::None, layout.columns);
        self.writers(&mut document, layout, now);
        self.pods(&mut document, layout);
        self.leases(&mut document, now);
        self.loops(&mut document, layout);
        document.heading("Other facts");
        let mut fact =
            |text: &str| document.sentence(vec![plain("  ")], text, Emphasis::None, layout.columns);
        let missing = self.missing();
        if missing.is_empty() {
            fact(match self.knows_permissions {
                true => "No missing permission was found.",
                false => "Missing permissions are not known.",
            });
        }
        missing.iter().for_each(|missing| fact(missing));
        self.certificates.iter().for_each(|certificate| fact(certificate));
        for hook in &self.webhooks {
            let what = if hook.mutates { "change" } else { "refuse" };
            let (name, policy) = (&hook.name, &hook.failure_policy);
            fact(&format!("Webhook {name} may {what} writes (failurePolicy {policy})."));
        }
        match &self.changes {
            Some(changes) => fact(&changes_in_words(changes)),
            None => fact("What kube-endpoint-manager would write is not known."),
        }
        for (heading, lines, emphasis) in
            [("To do", &self.to_do, Emphasis::Bad), ("Not known", &self.not_known, Emphasis::Warning)]
        {
            if !lines.is_empty() {
                document.heading(heading);
            }
            for line in lines {
                document.sentence(vec![plain("  ")], line, emphasis, layout.columns);
            }
        }
        document
    }

    fn writers(&self, document: &mut Document, layout: Layout, now: Timestamp) {
        if self.outputs.is_empty() {
            return;
        }
        document.heading("Last writers");
        let mut table = Table::new(2, &["KIND", "WRITER", "OBJECTS", "NEWEST", "OBJECT"]);
        for outputs in &self.outputs {
            for writer in &outputs.writers {
                let newest = writer.newest.map(|at| format!("{} ago", age::seconds(age::since(at, now))));
                let object = writer.newest_object.as_ref().map(ToString::to_string);
                table.row([
                    plain(outputs.kind.to_string()),
                    span(&*writer.name, Emphasis::Strong),
                    plain(writer.objects.to_string()),
                    plain(newest.unwrap_or_default()),
                    plain(object.unwrap_or_default()),
                ]);
            }
        }
        table.add_to(document);
        for outputs in &self.outputs {
            document.sentence(vec![plain("  ")], &read(outputs), Emphasis::Dim, layout.columns);
        }
    }

    fn pods(&self, document: &mut Document, layout: Layout) {
        let pods = || self.versions.managers.iter().chain(&self.versions.kube_controller_managers);
        if !layout.wide || pods().next().is_none() {
            return;
        }
        document.heading("Pods");
        let mut table = Table::new(2, &["POD", "NODE", "IMAGE", "CONTROLLERS"]);
        for pod in pods() {
            table.row([
                span(pod.pod.to_string(), Emphasis::Strong),
                plain(&*pod.node),
                plain(&*pod.image),
                plain(pod.controllers.as_deref().unwrap_or_default()),
            ]);
        }
        table.add_to(document);
    }

    fn leases(&self, document: &mut Document, now: Timestamp) {
        if self.leases.is_empty() {
            return;
        }
        document.heading("Leases");
        let mut table = Table::new(2, &["LEASE", "STATE", "SINCE", "WRITES", "HOLDER"]);
        for lease in &self.leases {
            let (state, emphasis) = match lease.state {
                LeaseState::Held => ("held", Emphasis::Good),
                LeaseState::Expired => ("expired", Emphasis::Warning),
                LeaseState::Released => ("released", Emphasis::Warning),
                LeaseState::Reserved => ("reserved", Emphasis::Warning),
            };
            let since = lease.since.map(|at| age::seconds(age::since(at, now)));
            table.row([
                span(lease.lease.to_string(), Emphasis::Strong),
                span(state, emphasis),
                plain(since.unwrap_or_default()),
                plain(&*lease.writes),
                plain(&*lease.holder),
            ]);
        }
        table.add_to(document);
    }

    fn loops(&self, document: &mut Document, layout: Layout) {
        document.heading("Loops of kube-controller-manager");
        let mut sentence = |indent: &str, text: &str, emphasis| {
            document.sentence(vec![plain(indent)], text, emphasis, layout.columns);
        };
        // This prints a sentence about all loops once.
        let is_common = |line: &&String| self.loops.iter().all(|of| of.evidence.contains(line));
        let differ =
            self.loops.windows(2).any(|two| matches!(two, [one, other] if one.evidence != other.evidence));
        let all = self.loops.first().filter(|_| differ).into_iter().flat_map(|of| &of.evidence);
        let common: Vec<&String> = all.filter(is_common).collect();
        for line in &common {
            sentence("  ", line, Emphasis::None);
        }
        for group in
            self.loops.chunk_by(|one, two| (one.is_off, &one.evidence) == (two.is_off, &two.evidence))
        {
            let Some(first) = group.first() else { continue };
            let names: Vec<&str> = group.iter().map(|of| of.name).collect();
            let text = format!("{}: {}", names.join(", "), first.is_off.word("off", "on"));
            sentence("  ", &text, Emphasis::Strong);
            for line in first.evidence.iter().filter(|line| !common.contains(line)) {
                sentence("    ", line, Emphasis::None);
            }
        }
        let emphasis = match self.two_at_once.answer {
            Answer::Yes => Emphasis::Bad,
            Answer::No => Emphasis::Good,
            Answer::NotKnown => Emphasis::Warning,
        };
        let text = format!("Two controllers at once: {}", self.two_at_once.answer.word("yes", "no"));
        document.line([plain("  "), span(text, emphasis)]);
        let evidence = self.two_at_once.evidence.join(" ");
        document.sentence(vec![plain("    ")], &evidence, Emphasis::None, layout.columns);
    }

    /// Returns a sentence for each function of each user that lacks permissions.
    fn missing(&self) -> Vec<String> {
        let same = |one: &Missing, other: &Missing| (one.who, one.function) == (other.who, other.function);
        let of = |group: &[Missing]| {
            let first = group.first()?;
            let permissions: Vec<&str> = group.iter().map(|missing| &*missing.permission).collect();
            Some(format!("Missing for {} ({}): {}.", first.who, first.function, permissions.join(", ")))
        };
        self.missing_permissions.chunk_by(same).filter_map(of).collect()
    }
}

/// Returns the versions of the pods: their images, each once.
fn images(pods: &[InstanceReport]) -> String {
    let mut images: Vec<&str> = pods.iter().map(|pod| &*pod.image).collect();
    images.sort_unstable();
    images.dedup();
    if images.is_empty() { "not known (no pod seen)".to_owned() } else { images.join(" and ") }
}

/// Returns what was read of a kind, with the values of the label.
fn read(outputs: &OutputsReport) -> String {
    let OutputsReport { kind, read, left, managed_by, .. } = outputs;
    let left = match left {
        0 => String::new(),
        left => format!(" ({left} more were not, so newer writes may exist)"),
    };
    let labels: Vec<String> = managed_by.iter().map(|(label, count)| format!("{label} {count}")).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("; label managed-by: {}", labels.join(", ")) };
    format!("{kind}: {} read{left}{labels}.", number(*read, "object"))
}

fn changes_in_words(changes: &Changes) -> String {
    let writes: Vec<String> = changes
        .writes
        .iter()
        .flat_map(|(kind, verbs)| {
            verbs.iter().map(move |(verb, count)| format!("{verb} {count} {kind} objects"))
        })
        .collect();
    let what = if writes.is_empty() { "write nothing".to_owned() } else { writes.join(", ") };
    let of = match changes.of {
        Some(of) => format!("{} of {of} Services, a sample", changes.services),
        None => number(changes.services, "Service"),
    };
    format!("kube-endpoint-manager would {what} ({of}).")
}
