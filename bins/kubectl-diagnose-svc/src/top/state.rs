//! The state of `top`, and its changes by keys, without terminal and clock.

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::figures::{Row, Totals};
use kube_endpoint_explain::text::Document;

use super::problems::Problems;

/// The number of lines by which a page key moves.
const PAGE: isize = 10;

/// The column that sorts the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Name,
    Ready,
    Slices,
    Full,
    Writes,
    Delay,
    Written,
    Problem,
}

impl Column {
    pub(crate) const ALL: [Self; 8] = [
        Self::Name,
        Self::Problem,
        Self::Ready,
        Self::Slices,
        Self::Full,
        Self::Writes,
        Self::Delay,
        Self::Written,
    ];

    /// Returns the key that sorts by it: an upper-case letter, as in k9s.
    pub(crate) fn key(self) -> char {
        match self {
            Self::Name => 'N',
            Self::Ready => 'R',
            Self::Slices => 'S',
            Self::Full => 'F',
            Self::Writes => 'W',
            Self::Delay => 'D',
            Self::Written => 'L',
            Self::Problem => 'P',
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Ready => "readiness, the lowest first",
            Self::Slices => "slices",
            Self::Full => "how full the slices are",
            Self::Writes => "writes (churn)",
            Self::Delay => "delay from change to write",
            Self::Written => "last write",
            Self::Problem => "problem, the worst first",
        }
    }

    /// Compares rows so that those that need attention come first. Equal rows have the order of
    /// their names.
    fn compare(self, one: &Row, other: &Row, problems: &Problems) -> std::cmp::Ordering {
        // The ratio is in thousandths, so that the last of many pods counts.
        let readiness = |row: &Row| (row.ready * 1000).checked_div(row.endpoints).unwrap_or_default();
        let by_column = match self {
            Self::Name => std::cmp::Ordering::Equal,
            Self::Ready => readiness(one).cmp(&readiness(other)),
            Self::Slices => other.slices.cmp(&one.slices),
            Self::Full => other.fill_percent.cmp(&one.fill_percent),
            Self::Writes => {
                (other.writes_last_minute, other.writes).cmp(&(one.writes_last_minute, one.writes))
            }
            Self::Delay => other.delay_millis.cmp(&one.delay_millis),
            Self::Written => other.last_write.cmp(&one.last_write),
            Self::Problem => problems.compare(&one.service, &other.service),
        };
        by_column.then_with(|| one.service.cmp(&other.service))
    }
}

/// A pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Interrupt,
}

/// The action that a key asks for, besides its change of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    None,
    Quit,
    /// Explain a Service, and show that with [`State::show`].
    Explain(ObjectKey),
}

/// A text over the table.
#[derive(Clone, Debug)]
pub(crate) enum Overlay {
    Help,
    Explanation { title: String, document: Document, from: usize },
}

/// The shown figures, texts and selection.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The context and the namespace, for the first line.
    pub(crate) scope: String,
    pub(crate) totals: Totals,
    /// The rows that pass the filter, sorted.
    pub(crate) rows: Vec<Row>,
    pub(crate) sort: Column,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// True while the user types the filter.
    pub(crate) typing: bool,
    /// The shown namespace, or `None` for all.
    pub(crate) namespace: Option<String>,
    pub(crate) overlay: Option<Overlay>,
    /// A message that replaces the keys in the last line.
    pub(crate) message: Option<String>,
    /// The problems that the last check found.
    pub(crate) problems: Problems,
    all: Vec<Row>,
    selected: Option<ObjectKey>,
}

impl State {
    pub(crate) fn new(scope: String) -> Self {
        Self {
            scope,
            totals: Totals::default(),
            rows: Vec::new(),
            sort: Column::Problem,
            reversed: false,
            filter: String::new(),
            typing: false,
            namespace: None,
            overlay: None,
            message: None,
            problems: Problems::default(),
            all: Vec::new(),
            selected: None,
        }
    }

    /// Shows new figures. The selection stays on its Service.
    pub(crate) fn refresh(&mut self, rows: Vec<Row>, totals: Totals) {
        self.all = rows;
        self.totals = totals;
        self.arrange();
    }

    /// Shows the problems of a check.
    pub(crate) fn find(&mut self, problems: Problems) {
        self.problems = problems;
        self.arrange();
    }

    /// Returns the number of Services of the shown namespace.
    pub(crate) fn services(&self) -> usize {
        let is_shown = |row: &&Row| {
            self.namespace.as_ref().is_none_or(|namespace| **namespace == *row.service.namespace)
        };
        self.all.iter().filter(is_shown).count()
    }

    /// Shows an explanation.
    pub(crate) fn show(&mut self, title: String, document: Document) {
        self.overlay = Some(Overlay::Explanation { title, document, from: 0 });
    }

    /// Returns the position of the selected row, if there is a row.
    pub(crate) fn selected(&self) -> Option<usize> {
        let at = self.rows.iter().position(|row| Some(&row.service) == self.selected.as_ref());
        at.or(if self.rows.is_empty() { None } else { Some(0) })
    }

    /// Reacts to a key.
    pub(crate) fn press(&mut self, key: Key) -> Action {
        if key == Key::Interrupt {
            return Action::Quit;
        }
        self.message = None;
        if self.overlay.is_some() {
            return self.press_in_overlay(key);
        }
        if self.typing {
            self.type_filter(key);
            return Action::None;
        }
        match key {
            Key::Char('q') => return Action::Quit,
            Key::Char('?' | 'h') => self.overlay = Some(Overlay::Help),
            Key::Char('/') => self.typing = true,
            Key::Escape => self.set_filter(String::new()),
            Key::Char('0') => self.set_namespace(None),
            Key::Char('n') => {
                let namespace = self.selected_key().map(|key| key.namespace.to_string());
                self.set_namespace(namespace);
            }
            Key::Enter | Key::Char('d') => return self.selected_key().map_or(Action::None, Action::Explain),
            Key::Char(letter) if letter.is_ascii_uppercase() => self.sort_by(letter),
            Key::Char('g') | Key::Home => self.move_by(isize::MIN),
            Key::Char('k') | Key::Up => self.move_by(-1),
            Key::Char('j') | Key::Down => self.move_by(1),
            Key::PageUp => self.move_by(-PAGE),
            Key::PageDown => self.move_by(PAGE),
            Key::End => self.move_by(isize::MAX),
            _ => {}
        }
        Action::None
    }

    fn press_in_overlay(&mut self, key: Key) -> Action {
        let by = match key {
            Key::Char('q' | '?') | Key::Escape | Key::Enter => {
                self.overlay = None;
                return Action::None;
            }
            Key::Char('g') | Key::Home => isize::MIN,
            Key::Char('k') | Key::Up => -1,
            Key::Char('j') | Key::Down => 1,
            Key::PageUp => -PAGE,
            Key::PageDown | Key::Char(' ') => PAGE,
            Key::Char('G') | Key::End => isize::MAX,
            _ => 0,
        };
        if let Some(Overlay::Explanation { document, from, .. }) = &mut self.overlay {
            *from = moved(*from, by, document.lines().len());
        }
        Action::None
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) => {
                let filter = format!("{}{c}", self.filter);
                self.set_filter(filter);
            }
            Key::Backspace => {
                let mut filter = self.filter.clone();
                filter.pop();
                self.set_filter(filter);
            }
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.set_filter(String::new());
            }
            _ => {}
        }
    }

    fn selected_key(&self) -> Option<ObjectKey> {
        self.selected().and_then(|at| self.rows.get(at)).map(|row| row.service.clone())
    }

    fn move_by(&mut self, by: isize) {
        let at = moved(self.selected().unwrap_or_default(), by, self.rows.len());
        self.selected = self.rows.get(at).map(|row| row.service.clone());
    }

    /// Sorts by the column of a key; the key of the same column again reverses the order. `G` moves
    /// to the end, as in k9s.
    fn sort_by(&mut self, letter: char) {
        if letter == 'G' {
            self.move_by(isize::MAX);
            return;
        }
        let Some(column) = Column::ALL.into_iter().find(|column| column.key() == letter) else { return };
        self.reversed = column == self.sort && !self.reversed;
        self.sort = column;
        self.arrange();
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
    }

    fn set_namespace(&mut self, namespace: Option<String>) {
        self.namespace = namespace;
        self.arrange();
    }

    /// Filters and sorts. As in k9s, a filter that begins with `!` keeps the rows that do not
    /// match.
    fn arrange(&mut self) {
        let (inverse, wanted) = match self.filter.strip_prefix('!') {
            Some(rest) => (true, rest.to_lowercase()),
            None => (false, self.filter.to_lowercase()),
        };
        let keeps = |row: &&Row| {
            self.namespace.as_ref().is_none_or(|namespace| **namespace == *row.service.namespace)
                && (wanted.is_empty() || row.service.to_string().to_lowercase().contains(&wanted) != inverse)
        };
        let mut rows: Vec<Row> = self.all.iter().filter(keeps).cloned().collect();
        rows.sort_by(|one, other| self.sort.compare(one, other, &self.problems));
        if self.reversed {
            rows.reverse();
        }
        self.rows = rows;
    }
}

/// Moves a position within a list.
fn moved(at: usize, by: isize, length: usize) -> usize {
    at.saturating_add_signed(by).min(length.saturating_sub(1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::problems::tests::problems;
    use super::*;
    use jiff::Timestamp;
    use kube_endpoint_core_model::well_known::{ENDPOINTSLICE_CONTROLLER, LABEL_MANAGED_BY};
    use kube_endpoint_core_model::{EndpointSlice, Service};
    use kube_endpoint_explain::figures::Figures;
    use kube_endpoint_explain::text::Layout;
    use serde_json::json;

    pub(crate) fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    fn slice(namespace: &str, service: &str, endpoints: usize, ready: usize, trigger: &str) -> EndpointSlice {
        let endpoint = |n: usize| json!({"addresses": [format!("10.0.{}.{}", n / 250, n % 250)], "conditions": {"ready": n < ready}});
        serde_json::from_value(json!({
            "metadata": {"name": format!("{service}-1"), "namespace": namespace,
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": trigger},
                "labels": {"kubernetes.io/service-name": service, LABEL_MANAGED_BY: ENDPOINTSLICE_CONTROLLER}},
            "addressType": "IPv4", "ports": [{"port": 80}], "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    fn service(namespace: &str, name: &str) -> Service {
        serde_json::from_value(
            json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"ports": [{"port": 80}]}}),
        )
        .unwrap()
    }

    /// Returns five Services: one busy, one half ready, one down, one full, one without slices.
    pub(crate) fn figures() -> Figures {
        let mut figures = Figures::new(100);
        let time = |seconds: i64| now() - jiff::SignedDuration::from_secs(seconds);
        for (namespace, service, endpoints, ready) in [
            ("shop", "cart", 40, 40),
            ("shop", "checkout", 10, 5),
            ("pay", "ledger", 3, 0),
            ("pay", "queue", 100, 100),
        ] {
            figures.service(&self::service(namespace, service), true);
            let old = slice(namespace, service, endpoints, ready, "2026-01-01T00:00:00Z");
            figures.slice(None, Some(&old), time(600), false);
            if service == "cart" {
                for seconds in [300, 200, 50, 40, 12] {
                    let trigger = (time(seconds) - jiff::SignedDuration::from_millis(250)).to_string();
                    let new = slice(namespace, service, endpoints, ready, &trigger);
                    figures.slice(Some(&old), Some(&new), time(seconds), true);
                }
            }
        }
        figures.service(&service("shop", "nobody"), true);
        figures
    }

    pub(crate) fn state() -> State {
        let mut state = State::new("context kind, all namespaces".to_owned());
        let figures = figures();
        state.refresh(figures.rows(now()), figures.totals(now()));
        state.find(problems());
        state
    }

    fn names(state: &State) -> Vec<String> {
        state.rows.iter().map(|row| row.service.name.to_string()).collect()
    }

    fn press(state: &mut State, keys: &str) {
        for key in keys.chars() {
            let key = match key {
                '\n' => Key::Enter,
                '\u{1b}' => Key::Escape,
                '\u{8}' => Key::Backspace,
                key => Key::Char(key),
            };
            assert_eq!(state.press(key), Action::None);
        }
    }

    /// Checks the names of the Services after keys.
    #[track_caller]
    fn check(keys: &str, want: &[&str]) {
        let mut state = state();
        press(&mut state, keys);
        assert_eq!(names(&state), want, "{keys:?}");
    }

    #[test]
    fn keys_sort_by_a_column_and_reverse() {
        check("", &["ledger", "checkout", "queue", "cart", "nobody"]);
        check("N", &["ledger", "queue", "cart", "checkout", "nobody"]);
        check("NN", &["nobody", "checkout", "cart", "queue", "ledger"]);
        check("NNN", &["ledger", "queue", "cart", "checkout", "nobody"]);
        check("R", &["ledger", "nobody", "checkout", "queue", "cart"]);
        check("F", &["queue", "cart", "checkout", "ledger", "nobody"]);
        check("S", &["ledger", "queue", "cart", "checkout", "nobody"]);
        check("D", &["cart", "ledger", "queue", "checkout", "nobody"]);
        check("L", &["cart", "ledger", "queue", "checkout", "nobody"]);
        check("W", &["cart", "ledger", "queue", "checkout", "nobody"]);
        check("P", &["nobody", "cart", "queue", "checkout", "ledger"]);
        check("WP", &["ledger", "checkout", "queue", "cart", "nobody"]);
        check("X", &["ledger", "checkout", "queue", "cart", "nobody"]);
    }

    #[test]
    fn a_filter_is_typed_kept_and_cleared() {
        check("/CH", &["checkout"]);
        check("/shop/c\n", &["checkout", "cart"]);
        check("/shop/c\u{8}\u{8}\n", &["checkout", "cart", "nobody"]);
        check("/!shop\n", &["ledger", "queue"]);
        check("/none\u{1b}", &["ledger", "checkout", "queue", "cart", "nobody"]);
        check("/none\n\u{1b}", &["ledger", "checkout", "queue", "cart", "nobody"]);
        // While the user types the filter, letters are no commands.
        check("/q", &["queue"]);
    }

    #[test]
    fn one_namespace_is_that_of_the_selected_service() {
        check("jn", &["checkout", "cart", "nobody"]);
        check("jn0", &["ledger", "checkout", "queue", "cart", "nobody"]);
    }

    #[test]
    fn the_selection_stays_on_its_service() {
        let mut state = state();
        assert_eq!(state.selected(), Some(0));
        press(&mut state, "jj");
        assert_eq!(state.selected(), Some(2));
        press(&mut state, "N");
        assert_eq!(state.selected(), Some(1));
        for (key, want) in [
            (Key::End, 4),
            (Key::Down, 4),
            (Key::Home, 0),
            (Key::Up, 0),
            (Key::PageDown, 4),
            (Key::PageUp, 0),
            (Key::Char('G'), 4),
            (Key::Char('g'), 0),
        ] {
            assert_eq!(state.press(key), Action::None);
            assert_eq!(state.selected(), Some(want), "{key:?}");
        }
        // The Service is gone, so the selection is on the first row.
        press(&mut state, "/nobody\n");
        assert_eq!(state.selected(), Some(0));
        press(&mut state, "\u{1b}/nothing at all\n");
        assert_eq!(state.selected(), None);
        assert_eq!(state.press(Key::Enter), Action::None);
    }

    #[test]
    fn enter_explains_and_the_text_scrolls() {
        let mut state = state();
        assert_eq!(state.press(Key::Enter), Action::Explain(ObjectKey::new("pay", "ledger")));
        let document = kube_endpoint_explain::leftovers::Cleanup::default().text(Layout::NARROW);
        state.show("shop/cart".to_owned(), document);
        press(&mut state, "jjj");
        let Some(Overlay::Explanation { from, .. }) = &state.overlay else { panic!("no explanation") };
        assert_eq!(*from, 0, "a text of one line does not scroll");
        press(&mut state, "q");
        assert!(state.overlay.is_none());
    }

    #[test]
    fn help_opens_and_closes_and_q_quits() {
        let mut state = state();
        press(&mut state, "?");
        assert!(matches!(state.overlay, Some(Overlay::Help)));
        press(&mut state, "\u{1b}");
        assert!(state.overlay.is_none());
        assert_eq!(state.press(Key::Char('q')), Action::Quit);
        press(&mut state, "/");
        assert_eq!(state.press(Key::Interrupt), Action::Quit);
    }
}
