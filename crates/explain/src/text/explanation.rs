//! Prints an explanation: the verdict first, then what to do, and below it the evidence.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{Text, Timestamp};

use super::document::{Document, Emphasis, Layout, Line, plain, span};
use super::table::Table;
use crate::answers::explain::{NamedBy, PodServices};
use crate::answers::explanation::{Explanation, Faults, Status};
use crate::answers::history::LastChange;
use crate::answers::near_services::{NearService, NotSelecting};
use crate::facts::age;
use crate::facts::details::LastWrite;
use crate::findings::code::Severity;
use crate::findings::finding::Problem;
use crate::findings::pod::{Place, PodExplanation};
use crate::findings::{Code, Fault, NotKnown, PodReason};
use crate::models::hint::HintReason;

/// The maximum number of pods for each reason, unless the layout is wide.
const PODS: usize = 8;

/// The maximum number of items of another list, such as the advice, unless the layout is wide.
const ITEMS: usize = 20;

/// The columns before the text about a code: a number, and the code.
const INDENT: usize = 12;

impl Status {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::NoEndpoints => "NO ENDPOINTS",
            Self::Unknown => "UNKNOWN",
            Self::Degraded => "DEGRADED",
            Self::Starting => "STARTING",
            Self::Down => "DOWN",
        }
    }

    pub(super) fn emphasis(self) -> Emphasis {
        match self {
            Self::Ok => Emphasis::Good,
            Self::NoEndpoints => Emphasis::Strong,
            Self::Degraded | Self::Unknown => Emphasis::Warning,
            Self::Starting | Self::Down => Emphasis::Bad,
        }
    }
}

impl Severity {
    pub(super) fn emphasis(self) -> Emphasis {
        match self {
            Self::Info => Emphasis::Dim,
            Self::Warning => Emphasis::Warning,
            Self::Error => Emphasis::Bad,
        }
    }
}

impl Explanation {
    /// Returns the explanation as text. Ages count up to `now`.
    pub fn text(&self, layout: Layout, now: Timestamp) -> Document {
        let mut document = Document::default();
        let verdict = &self.verdict;
        let status = span(verdict.status.word(), verdict.status.emphasis());
        let mut first =
            vec![status, plain("  "), span(format!("Service {}", self.service), Emphasis::Strong)];
        if verdict.code != Code::Published {
            first.push(plain(format!("  {} {}", verdict.code, verdict.code.name())));
        }
        if let Some(since) = self.since {
            first.push(plain(format!("  since {}", dated(since, now))));
        }
        document.line(first);
        if let Some(LastChange { at, what, .. }) = &self.last_change {
            let before = if self.since.is_some() { "Last change before that" } else { "Last change" };
            let change = format!("{before}: {what}, {}.", dated(*at, now));
            document.sentence(Vec::new(), &change, Emphasis::Dim, layout.columns);
        }
        document.sentence(Vec::new(), &sentence(&verdict.message), Emphasis::None, layout.columns);
        self.add_to_do(&mut document, layout);
        if let Some(from) = self.from.as_ref().filter(|from| !from.is_told) {
            document.blank();
            document.sentence(Vec::new(), &sentence(&from.message), Emphasis::None, layout.columns);
        }
        self.add_selector(&mut document, layout);
        self.add_pods(&mut document, layout, now);
        self.add_near(&mut document, layout);
        self.add_not_selected(&mut document, layout);
        self.add_outputs(&mut document, layout, now);
        self.add_events(&mut document, layout, now);
        document
    }

    /// Adds the advice, each below its finding. A reader knows that of the verdict already.
    fn add_to_do(&self, document: &mut Document, layout: Layout) {
        document.heading("What to do");
        if self.to_do.is_empty() {
            document.line([plain("  Nothing.")]);
        }
        let known = self.cause();
        for (at, advice) in self.to_do.iter().take(ITEMS).enumerate() {
            let mut lead = numbered(Some(at), advice.code, advice.severity.emphasis());
            if known != Some(at) {
                let finding = match advice.pods {
                    0 => sentence(&advice.message),
                    pods => sentence(&format!("{}: {}", number(pods, "pod"), advice.message)),
                };
                document.sentence(lead, &finding, Emphasis::None, layout.columns);
                lead = vec![plain(" ".repeat(INDENT))];
            }
            match self.to_do.iter().take(at).position(|earlier| earlier.remedy == advice.remedy) {
                Some(earlier) => {
                    document.sentence(
                        lead,
                        &format!("As for {}.", earlier + 1),
                        Emphasis::None,
                        layout.columns,
                    );
                }
                None => document.remedy(lead, &advice.remedy, Emphasis::None, layout.columns),
            }
        }
        more(document, self.to_do.len(), ITEMS, "things to do");
    }

    /// Returns true if the verdict or the advice contains a text.
    fn is_told(&self, text: &str) -> bool {
        self.to_do.iter().take(ITEMS).any(|advice| advice.message.contains(text))
    }

    /// Returns true if what clients get is not known because files do not have it.
    fn is_from_files(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault, Fault::NotKnown(NotKnown { from_files: true, .. })))
    }

    /// Says which EndpointSelector selects the pods. Faults tell about one that does not.
    fn add_selector(&self, document: &mut Document, layout: Layout) {
        let Some(by) = self.selected_by.as_ref().filter(|by| !by.requirements.is_empty()) else { return };
        let selector = by.requirements.join(", ");
        let selected = format!("Selected by EndpointSelector {}: {selector}.", by.endpoint_selector);
        document.blank();
        document.sentence(Vec::new(), &selected, Emphasis::None, layout.columns);
        if let Some(leads) = by.leads.as_ref().map(ToString::to_string).filter(|leads| !self.is_told(leads)) {
            document.sentence(Vec::new(), &sentence(&leads), Emphasis::None, layout.columns);
        }
        let others = "Use pods in kubectl port-forward, logs and exec: svc/NAME needs a selector.";
        document.sentence(Vec::new(), others, Emphasis::Dim, layout.columns);
    }

    fn add_pods(&self, document: &mut Document, layout: Layout, now: Timestamp) {
        if self.pods.is_empty() {
            return;
        }
        document.heading(format!("Pods ({})", self.pods.len()));
        let groups = self.pod_groups();
        let listed = if layout.wide { groups.len() } else { ITEMS };
        for PodGroup { advice, code, severity, message, pods } in groups.iter().take(listed) {
            let count = number(pods.len(), "pod");
            let is_known = self.pods_by_publication.receiving.is_some();
            let due = if self.is_from_files() { "would be published" } else { "should receive traffic" };
            let (code, emphasis, text) = match (*code, advice) {
                (Code::Published, _) if is_known => (*code, Emphasis::Good, format!("{count} published.")),
                (Code::Published, _) => (Code::NotKnown, Emphasis::Warning, format!("{count} {due}.")),
                (_, Some(_)) => (*code, severity.emphasis(), format!("{count}.")),
                (_, None) => (*code, severity.emphasis(), format!("{count}: {message}.")),
            };
            document.sentence(numbered(*advice, code, emphasis), &text, Emphasis::None, layout.columns);
            let shown = if layout.wide { pods.len() } else { PODS };
            let mut table = Table::new(INDENT, headings(layout));
            pods.iter().take(shown).for_each(|pod| table.row(cells(pod, layout, now)));
            table.add_to(document);
            more(document, pods.len(), shown, "pods; -o wide lists them");
        }
        more(document, groups.len(), listed, "reasons; -o wide lists them");
    }

    /// Returns the pods by reason: first those that the advice is about, in its order, then the
    /// others, the worst first.
    fn pod_groups(&self) -> Vec<PodGroup<'_>> {
        let mut by_reason: BTreeMap<(Code, String), Vec<&PodExplanation>> = BTreeMap::new();
        for pod in &self.pods {
            let group = pod.reason.as_ref().map(PodReason::group).unwrap_or_default();
            by_reason.entry((pod.code(), group)).or_default().push(pod);
        }
        let groups = by_reason.into_iter().map(|((code, _), pods)| {
            let reasons: Vec<&PodReason> = pods.iter().filter_map(|pod| pod.reason.as_ref()).collect();
            let message = PodReason::message(&reasons);
            let listed = &mut self.to_do.iter().take(ITEMS);
            let advice = listed.position(|it| it.code == code && it.message.contains(&message));
            let severity = pods.iter().map(|pod| pod.severity()).max().unwrap_or(Severity::Info);
            PodGroup { advice, code, severity, message, pods }
        });
        let mut groups: Vec<PodGroup<'_>> = groups.collect();
        groups.sort_by_key(|group| {
            (group.advice.unwrap_or(usize::MAX), std::cmp::Reverse(group.severity), group.code)
        });
        groups
    }

    fn add_near(&self, document: &mut Document, layout: Layout) {
        let listed = self.nearly_matching.iter().take(ITEMS).map(|near| (near.count, near.to_string()));
        let (told, others): (Vec<_>, Vec<_>) = listed.partition(|(_, text)| self.is_told(text));
        let shown: usize = told.iter().chain(&others).map(|(count, _)| count).sum();
        if others.is_empty() && shown == self.nearly_matching_pods {
            return;
        }
        document.heading("Pods that differ from the selector in one label");
        for (_, text) in &others {
            document.sentence(vec![plain("  ")], text, Emphasis::None, layout.columns);
        }
        more(document, self.nearly_matching_pods, shown, "pods");
    }

    /// Lists the pods that the EndpointSelector does not select because of one requirement.
    fn add_not_selected(&self, document: &mut Document, layout: Layout) {
        let groups = self.selected_by.as_ref().map_or(&[][..], |by| &by.not_selected);
        if groups.is_empty() {
            return;
        }
        document.heading("Pods that do not meet one requirement");
        for group in groups.iter().take(ITEMS) {
            document.sentence(vec![plain("  ")], &group.to_string(), Emphasis::None, layout.columns);
        }
        more(document, groups.len(), ITEMS, "groups");
    }

    fn add_outputs(&self, document: &mut Document, layout: Layout, now: Timestamp) {
        if !self.slices.is_empty() {
            document.heading(format!("EndpointSlices ({})", self.slices.len()));
            let all = &["NAME", "TYPE", "PORTS", "ENDPOINTS", "READY", "WRITTEN", "BY", "MANAGER"];
            let mut table = Table::new(2, if layout.wide { all } else { &all[..6] });
            let shown = if layout.wide { self.slices.len() } else { ITEMS };
            for slice in self.slices.iter().take(shown) {
                let of = slice.capacity.map(|capacity| format!(" of {capacity}")).unwrap_or_default();
                let ready = if slice.ready == 0 { Emphasis::Warning } else { Emphasis::None };
                let ports = if slice.ports.is_empty() { "none".to_owned() } else { slice.ports.join(" ") };
                let by = slice.last_write.as_ref().map(|write| write.by.to_string()).unwrap_or_default();
                table.row([
                    plain(&*slice.name),
                    plain(slice.address_type.as_str()),
                    plain(ports),
                    plain(format!("{}{of}", slice.endpoints)),
                    span(slice.ready.to_string(), ready),
                    plain(written(slice.last_write.as_ref(), now)),
                    plain(by),
                    plain(slice.manager.as_deref().unwrap_or_default()),
                ]);
            }
            table.add_to(document);
            more(document, self.slices.len(), shown, "slices; -o wide lists them");
        }
        if let Some(endpoints) = &self.endpoints {
            let truncated = if endpoints.truncated { ", truncated" } else { "" };
            let by =
                endpoints.last_write.as_ref().map(|write| format!(" by {}", write.by)).unwrap_or_default();
            let written = written(endpoints.last_write.as_ref(), now);
            let written = if written.is_empty() { written } else { format!(", written {written}{by}") };
            document.heading("Endpoints");
            let counts = format!("  {} ready, {} not ready", endpoints.ready, endpoints.not_ready);
            let retired = if self.endpoints_retired { ", although they are retired" } else { "" };
            document.line([plain(counts + truncated + &written + retired)]);
        } else if self.endpoints_retired {
            document.heading("Endpoints");
            document.line([plain("  none: they are retired".to_owned())]);
        }
        let fresh = &self.freshness;
        if let (Some(write), Some(change)) = (fresh.last_write_seconds, fresh.newest_change_seconds) {
            document.blank();
            document.line([span(
                format!(
                    "Last write {} ago, newest change {} ago.",
                    age::seconds(write),
                    age::seconds(change)
                ),
                Emphasis::Dim,
            )]);
        }
    }

    fn add_events(&self, document: &mut Document, layout: Layout, now: Timestamp) {
        if self.events.is_empty() {
            return;
        }
        document.heading("Events");
        for event in &self.events {
            let emphasis = if *event.event_type == *"Warning" { Emphasis::Warning } else { Emphasis::Dim };
            let ago = event.last.map(|time| format!(" ({} ago)", age::seconds(age::since(time, now))));
            let count = if event.count > 1 { format!(" (x{})", event.count) } else { String::new() };
            document.sentence(
                vec![plain("  "), span(&*event.reason, emphasis), plain("  ")],
                &format!("{}{count}{}", event.message, ago.unwrap_or_default()),
                Emphasis::None,
                layout.columns,
            );
        }
    }
}

impl PodServices {
    /// Returns the explanations of the pod for all Services, as text. Ages count up to `now`.
    pub fn text(&self, layout: Layout, now: Timestamp) -> Document {
        let mut document = Document::default();
        let receiving = self.services.iter().filter(|says| says.receives == Some(true)).count();
        let (word, emphasis) = match (self.services.len(), receiving) {
            (0, _) if self.is_sent_by_others() => ("OK", Emphasis::Good),
            (0, _) if self.is_sent_in_vain() => ("NO TRAFFIC", Emphasis::Bad),
            (0, _) => ("NOT SELECTED", Emphasis::Warning),
            _ if self.is_unknown() => ("UNKNOWN", Emphasis::Warning),
            (_, 0) => ("NO TRAFFIC", Emphasis::Bad),
            (all, some) if some < all => ("SOME TRAFFIC", Emphasis::Warning),
            _ if !self.is_published() => ("DEGRADED", Emphasis::Warning),
            _ => ("OK", Emphasis::Good),
        };
        document.line([
            span(word, emphasis),
            plain("  "),
            span(format!("Pod {}", self.pod), Emphasis::Strong),
        ]);
        let summary = self.summary(receiving);
        document.sentence(Vec::new(), &summary, Emphasis::None, layout.columns);
        if !self.services.is_empty() {
            document.heading("Services");
        }
        for says in &self.services {
            let emphasis = match (says.code, says.receives) {
                (_, Some(false)) => Emphasis::Bad,
                (Code::Published, _) => Emphasis::Good,
                _ => Emphasis::Warning,
            };
            let message = match &says.pod.reason {
                Some(reason) => sentence(&format!("{}: {reason}", says.service)),
                None if says.code == Code::NotKnown => {
                    format!("{}: the pod should be published; EndpointSlices are not known.", says.service)
                }
                None if !says.faults.is_empty() => String::new(),
                None if says.receives == Some(false) => format!(
                    "{}: the pod is published, and no client is sent to it; the explanation of the Service says why.",
                    says.service
                ),
                None => format!("{}: the pod is published.", says.service),
            };
            if !message.is_empty() {
                let lead = vec![plain("  "), span(says.code.id(), emphasis), plain("  ")];
                document.sentence(lead, &message, Emphasis::None, layout.columns);
            }
            if says.receives.is_none() && says.pod.reason.is_some() {
                let not_known = "EndpointSlices are not known, so whether it receives traffic is not known.";
                document.sentence(vec![plain("         ")], not_known, Emphasis::None, layout.columns);
            }
            if let Some(remedy) = says.pod.remedy().filter(|_| says.pod.cause.is_none()) {
                document.remedy(vec![plain("         ")], &remedy, Emphasis::Dim, layout.columns);
            }
            let of = says.pod.reason.is_none().then_some(&says.service);
            add_faults(&mut document, &says.faults, of, layout);
            let mut table = Table::new(9, headings(layout));
            table.row(cells(&says.pod, layout, now));
            table.add_to(&mut document);
        }
        if !self.named_by.is_empty() {
            document.heading("Services that do not select it, and whose slices name it or have its address");
        }
        for NamedBy { service, slice, receives, faults } in &self.named_by {
            if !faults.is_empty() {
                add_faults(&mut document, faults, Some(service), layout);
                continue;
            }
            let sends = if *receives { "sends it traffic" } else { "sends it no traffic" };
            let message = format!("{service}: slice {slice} {sends}.");
            document.sentence(vec![plain("  ")], &message, Emphasis::None, layout.columns);
        }
        near_services(&mut document, "it", (&self.nearly, &self.not_selecting), layout);
        document
    }

    /// Says how many Services send the pod traffic.
    fn summary(&self, receiving: usize) -> String {
        let unknown = self.services.iter().filter(|says| says.receives.is_none()).count();
        let all = self.services.len();
        let send = |some: usize| if some == 1 { "sends" } else { "send" };
        let selecting = format!("{all} Services that select the pod");
        match (all, unknown, receiving) {
            (0, ..) => self.summary_of_slices(),
            (1, 0, 0) => "The Service that selects the pod sends it no traffic.".to_owned(),
            (1, 0, _) if !self.is_published() => {
                "The Service that selects the pod sends it traffic, which may not reach it.".to_owned()
            }
            (1, 0, _) => "The Service that selects the pod sends it traffic.".to_owned(),
            (1, ..) => "Whether the Service that selects the pod sends it traffic is not known.".to_owned(),
            (_, 0, 0) => format!("None of the {selecting} sends it traffic."),
            (_, 0, some) if some < all => format!("{some} of the {selecting} {} it traffic.", send(some)),
            (_, 0, _) => format!("Each of the {selecting} sends it traffic."),
            (_, some, _) => {
                format!("Whether {some} of the {selecting} {} it traffic is not known.", send(some))
            }
        }
    }
}

impl PodServices {
    /// Returns true if a Service that does not select the pod names it, and the pod answers none of
    /// the clients that are sent there.
    fn is_sent_in_vain(&self) -> bool {
        let is_reached = self.named_by.iter().any(|named| named.receives);
        !is_reached && self.named_by.iter().any(|named| !named.faults.is_empty())
    }

    /// Says which slices send the pod traffic that no Service selects.
    fn summary_of_slices(&self) -> String {
        let meant = self.named_by.iter().find(|named| named.receives && named.faults.is_empty());
        if let Some(NamedBy { service, slice, .. }) = meant {
            return format!(
                "No selector selects the pod, and Service {service} sends it traffic, because slice {slice} names it."
            );
        }
        let wrong = |receives| {
            self.named_by.iter().find(move |named| named.receives == receives && !named.faults.is_empty())
        };
        if let Some(NamedBy { service, slice, .. }) = wrong(true) {
            return format!(
                "No Service selects the pod, and clients of Service {service} reach it, because slice {slice} has its address."
            );
        }
        match wrong(false) {
            Some(NamedBy { service, slice, .. }) => format!(
                "No selector selects the pod. Service {service} sends clients to it, because slice {slice} names it, and it answers none of them."
            ),
            None => "No Service selects the pod.".to_owned(),
        }
    }
}

/// Adds findings about a Service with their advice, below the name of the Service if it is given.
fn add_faults(document: &mut Document, faults: &Faults, service: Option<&Text>, layout: Layout) {
    for (fault, remedy) in faults.with_remedies() {
        let emphasis = fault.severity().emphasis();
        let message = match service {
            Some(service) => format!("{service}: {fault}"),
            None => fault.to_string(),
        };
        let lead = vec![plain("  "), span(fault.code().id(), emphasis), plain("  ")];
        document.sentence(lead, &sentence(&message), Emphasis::None, layout.columns);
        document.remedy(vec![plain("         ")], &remedy, Emphasis::Dim, layout.columns);
    }
}

/// Adds the Services that nearly select a pod, or the pods of a workload: `what` says which.
pub(super) fn near_services(
    document: &mut Document,
    what: &str,
    (nearly, not_selecting): (&[NearService], &[NotSelecting]),
    layout: Layout,
) {
    let mut add = |heading: String, messages: Vec<String>| {
        if !messages.is_empty() {
            document.heading(heading);
        }
        for message in messages {
            document.sentence(vec![plain("  ")], &sentence(&message), Emphasis::None, layout.columns);
        }
    };
    let nearly = nearly.iter().map(|it| format!("{}: {}", it.service, it.near.differs()));
    add(format!("Services that do not select {what} because of one label"), nearly.collect());
    let not = not_selecting.iter().map(|it| format!("{}: {}", it.service, it.not_selected.differs()));
    let heading =
        format!("Services whose EndpointSelector does not select {what} because of one requirement");
    add(heading, not.collect());
}

/// Pods that are, or are not, published for one reason.
struct PodGroup<'p> {
    /// The position of the advice for them, if there is one.
    advice: Option<usize>,
    code: Code,
    severity: Severity,
    message: String,
    pods: Vec<&'p PodExplanation>,
}

/// Returns the first spans of the text about a code, with the number of its advice.
pub(super) fn numbered(advice: Option<usize>, code: Code, emphasis: Emphasis) -> Line {
    let number = advice.map(|at| format!("{}.", at + 1)).unwrap_or_default();
    vec![plain(format!("{number:>4} ")), span(code.id(), emphasis), plain("  ")]
}

fn headings(layout: Layout) -> &'static [&'static str] {
    if layout.wide {
        &["NAME", "ADDRESS", "NODE", "SINCE", "SLICE", "ZONE", "HINT", "BECAUSE"]
    } else {
        &["NAME", "ADDRESS", "SINCE", "SLICE", "HINT"]
    }
}

fn cells(pod: &PodExplanation, layout: Layout, now: Timestamp) -> Vec<super::Span> {
    let address = match (pod.addresses.as_slice(), layout.wide) {
        ([], _) => String::new(),
        ([first, ..], false) => first.to_string(),
        (all, true) => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    };
    let since = pod.reason.as_ref().and_then(|reason| reason.finding().since());
    let since = since.map(|time| age::seconds(age::since(time, now))).unwrap_or_default();
    let slices: Vec<&str> = pod.places.iter().map(|place| &*place.slice).collect();
    let place = pod.places.first();
    let hint = place.map(hint).unwrap_or_default();
    let node = pod.node.as_deref().unwrap_or_default();
    if layout.wide {
        let zone = place.and_then(|place| place.zone.as_deref()).unwrap_or_default();
        let because = place.map(|place| because(&place.hint)).unwrap_or_default();
        let texts = [&*pod.name, &address, node, &since, &slices.join(" "), zone, &hint, &because];
        return texts.into_iter().map(plain).collect();
    }
    let slice = match slices.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, more @ ..] => format!("{one} +{}", more.len()),
    };
    [&*pod.name, &address, &since, &slice, &hint].into_iter().map(plain).collect()
}

fn hint(place: &Place) -> String {
    let zones = place.for_zones.iter().map(|zone| &**zone);
    zones.chain(place.for_nodes.iter().map(|node| &**node)).collect::<Vec<_>>().join(" ")
}

/// Returns the reason why an endpoint has its hints, short enough for a cell.
fn because(hint: &HintReason) -> String {
    match hint {
        HintReason::NotAsked => String::new(),
        HintReason::Withheld { .. } => format!("withheld, see {}", Code::TopologyHintsWithheld),
        reason => reason.to_string(),
    }
}

fn written(write: Option<&LastWrite>, now: Timestamp) -> String {
    write.map(|write| format!("{} ago", age::seconds(age::since(write.time, now)))).unwrap_or_default()
}

/// Returns a time with its age.
fn dated(time: Timestamp, now: Timestamp) -> String {
    format!("{time} ({})", age::seconds(age::since(time, now)))
}

/// Adds a line with the number of items that the list leaves out.
fn more(document: &mut Document, all: usize, shown: usize, what: &str) {
    if all > shown {
        document.line([span(format!("{:INDENT$}and {} more {what}", "", all - shown), Emphasis::Dim)]);
    }
}

pub(super) fn number(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Makes a sentence of a message: a capital letter, and a full stop.
pub(super) fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    // A name keeps its case: a sentence that begins with one has a colon after it.
    let is_name = message.split_whitespace().next().is_some_and(|word| word.ends_with(':'));
    let first = chars.next().map(|c| if is_name { c.to_string() } else { c.to_uppercase().to_string() });
    let end = if message.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{}{}{end}", first.unwrap_or_default(), chars.as_str())
}
