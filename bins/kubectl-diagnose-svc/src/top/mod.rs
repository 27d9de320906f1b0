//! `top`: a live view of all Services.
//!
//! The informer watches Services and EndpointSlices and hands changes to the figures. [`state`] and
//! [`view`] are pure; this is the shell: terminal, keys, clock, requests.

mod columns;
mod problems;
mod state;
mod view;

use std::future::pending;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::LocalBoxFuture;
use jiff::Timestamp;
use kube_endpoint_core_model::{EndpointSlice, LabelSelector, ObjectKey, Service, StringMap};
use kube_endpoint_explain::figures::Figures;
use kube_endpoint_explain::text::{Document, Layout};
use kube_endpoint_informer::{
    Change, Cluster, ClusterOptions, Handler, Kind, ReflectorOptions, Scope, WatchedNamespaces,
    run as reflect,
};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::args::Format;
use crate::commands::current_time;
use crate::connect::Connection;
use crate::output::Output;
use kube_endpoint_explain::{LintOptions, Options};
use kube_endpoint_explain_reader::Reader;
use problems::{Checks, MAX_SERVICES, Problems};
use state::{Action, Key, State};

/// The time between two drawings of the figures.
const REFRESH: Duration = Duration::from_secs(1);
/// Longer than anybody watches.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Checks that the output can be drawn.
///
/// # Errors
///
/// An error if the format is one for programs.
pub(crate) fn check_format(output: Output) -> anyhow::Result<()> {
    match output.format {
        Format::Table => Ok(()),
        _ => bail!(
            "top draws on a terminal and has no other format; `lint -o json` lists Services with a problem"
        ),
    }
}

/// Draws until the user quits. `namespace` limits the watches, and `selector` the shown Services;
/// `scope` is the first line's text.
///
/// # Errors
///
/// An error if standard output is no terminal.
pub(crate) async fn run(
    connection: Connection,
    namespace: Option<String>,
    selector: Option<LabelSelector>,
    scope: String,
    output: Output,
    options: &Options,
) -> anyhow::Result<u8> {
    if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        bail!("top draws on a terminal, and standard input or output is none");
    }
    let watched_namespaces = WatchedNamespaces::named(namespace.clone());
    let lint_options = LintOptions { selector: selector.clone(), ..LintOptions::default() };
    let stores = ClusterOptions { watched_namespaces, ..ClusterOptions::default() };
    let cluster = Cluster::with_options([Kind::Services, Kind::EndpointSlices], stores);
    let recorder = Arc::new(Recorder::new(options.slices.max_endpoints_per_slice, selector));
    cluster.add_handler(Arc::clone(&recorder) as Arc<dyn Handler>);
    // Nothing is written from these stores, so it is enough to list a kind again whose versions
    // went back.
    cluster.defer_evidence_until(Instant::now() + NEVER);
    let client = connection.client.clone();
    // Only delays after failures depend on it.
    let reflector = ReflectorOptions::new(u64::from(std::process::id()));
    let watches = async {
        let services = reflect::<Service>(client.clone(), cluster.clone(), reflector, pending());
        let slices = reflect::<EndpointSlice>(client.clone(), cluster.clone(), reflector, pending());
        let _ = tokio::join!(services, slices);
    };
    let reader = Reader::new(connection.client.kube().clone());
    let mut state = State::new(scope);
    let mut terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let shown = async {
        let mut keys = keys().context("the keys cannot be read")?;
        let mut tick = tokio::time::interval(REFRESH);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut explaining: Option<LocalBoxFuture<'_, (String, anyhow::Result<Document>)>> = None;
        let mut checks = Some(Checks::new(options, lint_options));
        let mut checking: Option<LocalBoxFuture<'_, (Checks, anyhow::Result<Problems>)>> = None;
        loop {
            let now = current_time();
            terminal.draw(|frame| view::draw(frame, &state, now, output.colors))?;
            tokio::select! {
                biased;
                key = keys.recv() => match key.map(|key| state.press(key)) {
                    None | Some(Action::Quit) => return anyhow::Ok(()),
                    Some(Action::None) => {}
                    Some(Action::Explain(key)) => {
                        state.message = Some(format!("Reading {key}"));
                        let layout = view::layout_in(output.layout(), terminal.size()?.width);
                        explaining = Some(Box::pin(explained(&reader, key, options, layout)));
                    }
                },
                (title, document) = async { match &mut explaining { Some(it) => it.await, None => pending().await } } => {
                    explaining = None;
                    state.message = None;
                    match document {
                        Ok(document) => state.show(title, document),
                        Err(error) => state.message = Some(kube_endpoint_core_model::causes(&*error)),
                    }
                }
                (done, problems) = async { match &mut checking { Some(it) => it.await, None => pending().await } } => {
                    checking = None;
                    checks = Some(done);
                    match problems {
                        Ok(problems) => state.find(problems),
                        Err(error) => state.message = Some(kube_endpoint_core_model::causes(&*error)),
                    }
                }
                _ = tick.tick() => {
                    let now = current_time();
                    let (rows, totals) = recorder.with(|figures| (figures.rows(now), figures.totals(now)));
                    state.refresh(rows, totals);
                    if let Some(failure) = failure(&cluster) {
                        state.message = Some(failure);
                    }
                    let is_due = |checks: &mut Checks| checks.is_due() && state.services() <= MAX_SERVICES;
                    if let Some(checks) = checks.take_if(is_due) {
                        let shown = state.namespace.clone().or_else(|| namespace.clone());
                        checking = Some(Box::pin(checks.run(&reader, shown)));
                    }
                }
            }
        }
    };
    let result = tokio::select! {
        biased;
        result = shown => result,
        () = watches => Ok(()),
    };
    ratatui::restore();
    result.map(|()| 0)
}

/// Returns the error of a failing list or watch.
fn failure(cluster: &Cluster) -> Option<String> {
    [Kind::Services, Kind::EndpointSlices].into_iter().find_map(|kind| {
        let failure = cluster.status(kind).failure?;
        let what = format!("cannot {} {}", failure.verb.as_str(), kind.name());
        Some(match failure.missing_permission(kind) {
            Some(missing) => format!("{what}: you lack {missing}"),
            None => format!("{what}: {}", failure.message),
        })
    })
}

async fn explained(
    reader: &Reader,
    key: ObjectKey,
    options: &Options,
    layout: Layout,
) -> (String, anyhow::Result<Document>) {
    let read = reader.explain_service(&key, options, &current_time).await;
    let document = read.map(|it| it.explanation.text(layout, it.at)).map_err(Into::into);
    (format!("Service {key}"), document)
}

/// Hands changes to the figures.
struct Recorder {
    figures: Mutex<Figures>,
    /// True after the list of slices: later changes are writes.
    is_listed: AtomicBool,
    /// Selects Services and slices by their own labels. Slices have those of their Service.
    selector: Option<LabelSelector>,
}

impl Recorder {
    fn new(max_endpoints: usize, selector: Option<LabelSelector>) -> Self {
        let is_listed = AtomicBool::new(false);
        Self { figures: Mutex::new(Figures::new(max_endpoints)), is_listed, selector }
    }

    fn selects(&self, labels: &StringMap) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Figures) -> T) -> T {
        look(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn slice(&self, change: &Change<EndpointSlice>, at: Timestamp) {
        let is_write = self.is_listed.load(Ordering::Relaxed);
        // A slice that is not selected any more counts as deleted.
        let selected = |slice: Option<&Arc<EndpointSlice>>| {
            slice.filter(|slice| self.selects(&slice.metadata.labels)).cloned()
        };
        let (old, new) = (selected(change.old.as_ref()), selected(change.new.as_ref()));
        if old.is_some() || new.is_some() {
            self.with(|figures| figures.slice(old.as_deref(), new.as_deref(), at, is_write));
        }
    }
}

impl Handler for Recorder {
    fn on_service(&self, change: &Change<Service>) {
        let Some(service) = change.latest() else { return };
        let exists = change.new.as_ref().is_some_and(|service| self.selects(&service.labels));
        self.with(|figures| figures.service(service, exists));
    }

    fn on_endpoint_slice(&self, change: &Change<EndpointSlice>) {
        self.slice(change, current_time());
    }

    fn on_relisted(&self, kind: Kind, _scope: &Scope) {
        if kind == Kind::EndpointSlices {
            self.is_listed.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns the pressed keys. A thread reads them, since reading from the terminal blocks.
///
/// # Errors
///
/// The system's error, if it refuses the thread.
fn keys() -> std::io::Result<mpsc::UnboundedReceiver<Key>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            let key = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key),
                // The next tick draws a new size at the latest.
                _ => None,
            };
            if key.is_some_and(|key| sender.send(key).is_err()) {
                break;
            }
        }
    })?;
    Ok(receiver)
}

fn key_of(key: KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Key::Interrupt);
    }
    if key.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    Some(match key.code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_informer::StreamEvent;
    use serde_json::json;

    fn slice(version: u64) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {"name": "web-1", "namespace": "n", "resourceVersion": version.to_string(),
                "labels": {"kubernetes.io/service-name": "web", "version": version.to_string()}},
            "addressType": "IPv4", "endpoints": [],
        }))
        .unwrap()
    }

    #[test]
    fn what_a_list_shows_is_no_write_and_what_follows_is() {
        let cluster = Cluster::new([Kind::Services, Kind::EndpointSlices]);
        let recorder = Arc::new(Recorder::new(100, None));
        cluster.add_handler(Arc::clone(&recorder) as Arc<dyn Handler>);
        let totals = || recorder.with(|figures| figures.totals(current_time()));
        cluster.apply(StreamEvent::restarted(vec![slice(1)], "1".parse().unwrap()));
        assert_eq!((totals().slices, totals().writes.iter().sum::<u32>()), (1, 0));
        cluster.apply(StreamEvent::Applied(slice(2)));
        assert_eq!((totals().slices, totals().writes.iter().sum::<u32>()), (1, 1));
        cluster.apply(StreamEvent::Deleted(slice(3)));
        assert_eq!((totals().services, totals().writes.iter().sum::<u32>()), (0, 2));
    }

    #[test]
    fn a_selector_chooses_services_and_slices_by_their_labels() {
        let cluster = Cluster::new([Kind::Services, Kind::EndpointSlices]);
        let selector = "version=2".parse().unwrap();
        let recorder = Arc::new(Recorder::new(100, Some(selector)));
        cluster.add_handler(Arc::clone(&recorder) as Arc<dyn Handler>);
        let service = |version: u64| -> Service {
            serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "n",
                "resourceVersion": version.to_string(), "labels": {"version": version.to_string()}}, "spec": {}}))
            .unwrap()
        };
        let counts = || {
            let totals = recorder.with(|figures| figures.totals(current_time()));
            (totals.services, totals.slices)
        };
        let mut seen = Vec::new();
        for version in [1, 2, 3] {
            cluster.apply(StreamEvent::Applied(service(version)));
            cluster.apply(StreamEvent::Applied(slice(version)));
            seen.push(counts());
        }
        assert_eq!(seen, [(0, 0), (1, 1), (0, 0)]);
    }

    #[test]
    fn keys_are_those_of_the_terminal() {
        let plain = |code| key_of(KeyEvent::new(code, KeyModifiers::NONE));
        let shift = |code| key_of(KeyEvent::new(code, KeyModifiers::SHIFT));
        let control = |code| key_of(KeyEvent::new(code, KeyModifiers::CONTROL));
        assert_eq!(plain(KeyCode::Char('q')), Some(Key::Char('q')));
        assert_eq!(shift(KeyCode::Char('N')), Some(Key::Char('N')));
        assert_eq!(control(KeyCode::Char('c')), Some(Key::Interrupt));
        assert_eq!(control(KeyCode::Char('n')), None);
        assert_eq!(key_of(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT)), None);
        assert_eq!(plain(KeyCode::F(1)), None);
    }
}
