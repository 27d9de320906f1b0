//! Draws the state of `top`.

use std::borrow::Cow;

use jiff::Timestamp;
use kube_endpoint_core_model::harmless;
use kube_endpoint_explain::Severity;
use kube_endpoint_explain::age;
use kube_endpoint_explain::figures::{Row, Totals};
use kube_endpoint_explain::text::{Colors, Emphasis, Layout as TextLayout, Line as TextLine};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Sparkline, Table, Wrap};

use super::columns::Columns;
use super::state::{Column, Overlay, State};

/// The maximum number of characters of a name or a message: no terminal is wider.
const LONGEST_TEXT: usize = 1000;

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, now: Timestamp, colors: Colors) {
    let [first, numbers, writes, table, last] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let heading = vec![
        Span::styled("Services", style(Emphasis::Strong, colors)),
        Span::raw(format!("  {}", shown(&state.scope))),
    ];
    frame.render_widget(Line::from(heading), first);
    frame.render_widget(Paragraph::new(sums(&state.totals)), numbers);
    draw_writes(frame, writes, &state.totals, colors);
    draw_table(frame, table, state, now, colors);
    frame.render_widget(Paragraph::new(last_line(state, colors)), last);
    match &state.overlay {
        None => {}
        Some(Overlay::Help) => draw_text(frame, " Keys ", &help(), 0, colors),
        Some(Overlay::Explanation { title, document, from }) => {
            let lines: Vec<Line<'_>> = document.lines().iter().map(|line| line_of(line, colors)).collect();
            draw_text(frame, &format!(" {} ", shown(title)), &lines, *from, colors);
        }
    }
}

fn style(emphasis: Emphasis, colors: Colors) -> Style {
    let style = match emphasis {
        Emphasis::None => Style::new(),
        Emphasis::Strong => Style::new().add_modifier(Modifier::BOLD),
        Emphasis::Dim => Style::new().add_modifier(Modifier::DIM),
        Emphasis::Good => Style::new().fg(Color::Green),
        Emphasis::Warning => Style::new().fg(Color::Yellow),
        Emphasis::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    };
    if colors == Colors::On { style } else { Style { fg: None, ..style } }
}

fn line_of<'l>(line: &'l TextLine, colors: Colors) -> Line<'l> {
    line.iter().map(|span| Span::styled(&*span.text, style(span.emphasis, colors))).collect()
}

/// Escapes a text of a cluster, a kubeconfig or an error for a terminal.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    harmless(text, LONGEST_TEXT)
}

/// Formats a delay with at most six characters. Trigger times are whole seconds, so less cannot be
/// told apart.
pub(super) fn delay(millis: Option<u64>) -> String {
    match millis {
        None => "-".to_owned(),
        Some(0..1_000) => "<1s".to_owned(),
        Some(millis) => age::seconds(i64::try_from(millis / 1_000).unwrap_or(i64::MAX)),
    }
}

fn sums(totals: &Totals) -> String {
    let Totals { services, slices, endpoints, ready, .. } = totals;
    let percent = (ready * 100).checked_div(*endpoints).map(|percent| format!(" ({percent}%)"));
    let [.., full] = totals.slices_by_fill;
    let percent = percent.unwrap_or_default();
    format!(
        "{services} Services  {slices} slices, {full} over 90% full  {ready} of {endpoints} endpoints ready{percent}"
    )
}

fn draw_writes(frame: &mut Frame<'_>, area: Rect, totals: &Totals, colors: Colors) {
    let text = format!("{} writes/min ", totals.writes_last_minute);
    let delays = format!(
        "  Delay: {} for half, {} for 99%",
        delay(totals.delay_millis_50),
        delay(totals.delay_millis_99)
    );
    let width = |text: &str| u16::try_from(text.len()).unwrap_or(u16::MAX);
    let room = area.width.saturating_sub(width(&text) + width(&delays));
    let [before, plot, after] = Layout::horizontal([
        Constraint::Length(width(&text)),
        Constraint::Length(room.min(30)),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(text), before);
    // Three buckets share one column: 30 columns for 15 minutes.
    let sums: Vec<u64> =
        totals.writes.chunks(3).map(|chunk| chunk.iter().map(|count| u64::from(*count)).sum()).collect();
    let shown = sums.len().saturating_sub(usize::from(plot.width));
    let bars = Sparkline::default().data(sums.get(shown..).unwrap_or_default());
    frame.render_widget(bars.style(style(Emphasis::Good, colors)), plot);
    frame.render_widget(Paragraph::new(delays), after);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, state: &State, now: Timestamp, colors: Colors) {
    let namespace = shown(state.namespace.as_deref().unwrap_or("all"));
    let mut title = format!(" Services({namespace})[{}] ", state.rows.len());
    if !state.filter.is_empty() {
        title = format!("{title}</{}> ", shown(&state.filter));
    }
    let mut block = Block::new().borders(Borders::ALL).title(title);
    if let Some(cause) = state.problems.root_cause() {
        let cause = Span::styled(format!(" {} ", shown(cause)), style(Emphasis::Bad, colors));
        block = block.title_bottom(Line::from(cause));
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if state.rows.is_empty() {
        let text =
            if state.filter.is_empty() { "There are no Services." } else { "The filter finds no Service." };
        frame.render_widget(Paragraph::new(text), inner);
        return;
    }
    let columns = Columns::fitting(state, usize::from(inner.width));
    let height = usize::from(inner.height.saturating_sub(1)).max(1);
    let selected = state.selected().unwrap_or_default();
    // The selection is in the middle, except near the ends of the list.
    let from = selected.saturating_sub(height / 2).min(state.rows.len().saturating_sub(height));
    let shown = || state.rows.iter().skip(from).take(height);
    let rows = shown().enumerate().map(|(at, row)| {
        let emphasis = emphasis(row, state.problems.severity(&row.service));
        let mut style = style(emphasis, colors);
        if from + at == selected {
            style = style.add_modifier(Modifier::REVERSED);
        }
        ratatui::widgets::Row::new(columns.cells(state, row, now).map(Cell::from)).style(style)
    });
    let header = ratatui::widgets::Row::new(columns.headings(state)).style(style(Emphasis::Strong, colors));
    let widths = columns.widths().map(Constraint::Length);
    frame.render_widget(Table::new(rows, widths).header(header).column_spacing(1), inner);
}

fn emphasis(row: &Row, problem: Option<Severity>) -> Emphasis {
    match (row.ready, row.endpoints) {
        _ if problem == Some(Severity::Error) => Emphasis::Bad,
        (_, 0) => Emphasis::Dim,
        (0, _) => Emphasis::Bad,
        (ready, all) if ready < all => Emphasis::Warning,
        _ => Emphasis::None,
    }
}

fn last_line(state: &State, colors: Colors) -> Line<'_> {
    if state.typing {
        return Line::raw(format!("/{}_  (Enter keeps the filter, Esc clears it)", state.filter));
    }
    if let Some(message) = &state.message {
        return Line::styled(shown(message), style(Emphasis::Bad, colors));
    }
    Line::styled(
        "q quit  / filter  Enter explain  n namespace  0 all  N P R S F W D L sort ? help",
        style(Emphasis::Dim, colors),
    )
}

fn help() -> Vec<Line<'static>> {
    let mut lines = vec![
        ("↑ ↓ j k", "move; PgUp, PgDn, g and G move further".to_owned()),
        ("Enter d", "explain the selected Service".to_owned()),
        ("/", "filter by namespace/name; !text inverts; Esc clears".to_owned()),
        ("n", "show only the namespace of the selected Service".to_owned()),
        ("0", "show all namespaces".to_owned()),
    ];
    let sort = Column::ALL.map(|column| (column.key(), column.label()));
    let sort = sort.map(|(key, label)| (key.to_string(), format!("sort by {label}; again reverses")));
    lines.push(("?", "show and hide this help".to_owned()));
    lines.push(("q Ctrl-C", "quit".to_owned()));
    let plain = lines.into_iter().map(|(key, text)| (key.to_owned(), text));
    let mut all: Vec<Line<'static>> =
        plain.chain(sort).map(|(key, text)| Line::raw(format!("{key:9}  {text}"))).collect();
    all.push(Line::raw(""));
    for text in [
        "PROBLEM       the worst that lint finds, and the number of others, every 30 s;",
        "              ? is not known yet, or one of more than 1,000 Services",
        "W/MIN, W/15M  writes of the Service's slices that were seen since the start",
        "FULL          endpoints in percent of what its slices can hold",
        "DELAY         from the change of a pod (trigger-time annotation) until the",
        "              write arrived here, by this machine's clock, in whole seconds",
    ] {
        all.push(Line::raw(text));
    }
    all
}

/// Returns the layout of a text in a frame over a terminal of this width.
pub(crate) fn layout_in(layout: TextLayout, terminal: u16) -> TextLayout {
    // The frame takes a column on each side.
    TextLayout { columns: layout.columns.min(usize::from(terminal.saturating_sub(2))), ..layout }
}

/// Draws a text over everything.
fn draw_text(frame: &mut Frame<'_>, title: &str, lines: &[Line<'_>], from: usize, colors: Colors) {
    let area = frame.area();
    let block = Block::new()
        .borders(Borders::ALL)
        .title(title.to_owned())
        .title_bottom(" Esc closes, ↑ ↓ scroll ")
        .style(style(Emphasis::None, colors));
    let lines: Vec<Line<'_>> = lines.iter().skip(from).cloned().collect();
    frame.render_widget(Clear, area);
    // Tables may be wider than the terminal, whose size may also have changed: the rest of a line
    // goes to the next one.
    frame.render_widget(Paragraph::new(lines).block(block).wrap(Wrap { trim: false }), area);
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::{now, state};
    use super::super::state::{Key, State};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, now(), Colors::Off)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn eighty_columns() {
        insta::assert_snapshot!(drawn(&state(), 80, 14));
    }

    #[test]
    fn the_page_shows_what_is_drawn() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/kubectl-plugin.md"))
                .unwrap();
        let drawn = drawn(&state(), 80, 14);
        let lines: Vec<&str> = drawn.lines().map(|line| line.trim_matches('"').trim_end()).collect();
        assert!(page.contains(&lines.join("\n")), "the page should show:\n{}", lines.join("\n"));
    }

    /// The cause is below the table, so that no Service has to say it.
    #[test]
    fn an_unserved_cluster_has_its_cause_below_the_table() {
        let mut state = state();
        state.find(super::super::problems::tests::unserved());
        insta::assert_snapshot!(drawn(&state, 160, 9));
    }

    #[test]
    fn a_hundred_and_twenty_columns() {
        insta::assert_snapshot!(drawn(&state(), 120, 14));
    }

    #[test]
    fn a_filter_is_in_the_title_and_typed_in_the_last_line() {
        let mut state = state();
        for key in "/pay".chars() {
            state.press(Key::Char(key));
        }
        insta::assert_snapshot!(drawn(&state, 80, 9));
    }

    #[test]
    fn help_lists_all_keys() {
        let mut state = state();
        state.press(Key::Char('?'));
        insta::assert_snapshot!(drawn(&state, 80, 24));
    }

    #[test]
    fn an_explanation_covers_the_table() {
        let mut state = state();
        let document = kube_endpoint_explain::leftovers::Cleanup::default().text(TextLayout::NARROW);
        state.show("shop/cart".to_owned(), document);
        insta::assert_snapshot!(drawn(&state, 60, 6));
    }

    #[test]
    fn no_word_of_an_explanation_is_lost() {
        let text = "the pod is being deleted and finishes its requests";
        for (width, laid_out) in [(80, 80), (40, 40), (30, 80)] {
            let mut cleanup = kube_endpoint_explain::leftovers::Cleanup::default();
            cleanup.items.push(kube_endpoint_explain::leftovers::CleanupItem {
                kind: kube_endpoint_explain::leftovers::OutputKind::Endpoints,
                object: kube_endpoint_core_model::ObjectKey::new("shop", "gone"),
                uid: "u".into(),
                reason: format!("{text} {text} {text}"),
                outcome: kube_endpoint_explain::leftovers::Outcome::Found,
                message: String::new(),
            });
            let mut state = state();
            state.show("shop/cart".to_owned(), cleanup.text(layout_in(TextLayout::NARROW, laid_out)));
            let drawn = drawn(&state, width, 24);
            let words: Vec<&str> = drawn.split(|c: char| !c.is_alphanumeric()).collect();
            let count = |word: &str| words.iter().filter(|it| **it == word).count();
            for word in text.split(' ').filter(|word| *word != "the") {
                assert_eq!(count(word), 3, "{word}\n{drawn}");
            }
        }
    }

    #[test]
    fn a_message_and_no_services() {
        let mut state = State::new("context kind, namespace shop".to_owned());
        state.message = Some("services may not be listed".to_owned());
        insta::assert_snapshot!(drawn(&state, 60, 8));
    }

    #[test]
    fn hostile_names_and_messages_are_escaped() {
        let hostile = "a\u{1b}[2J\u{9b}m\u{202e}b\u{200d}";
        let mut state = state();
        state.rows[0].service = kube_endpoint_core_model::ObjectKey::new(hostile, hostile);
        state.scope = format!("context {hostile}");
        state.message = Some(hostile.repeat(1000));
        let table = drawn(&state, 200, 14);
        state.message = None;
        state.show(
            hostile.to_owned(),
            kube_endpoint_explain::leftovers::Cleanup::default().text(TextLayout::NARROW),
        );
        let overlay = drawn(&state, 200, 14);
        for text in [&table, &overlay] {
            let wrong =
                text.chars().filter(|c| *c != '\n' && !kube_endpoint_core_model::is_harmless(*c)).count();
            assert_eq!(wrong, 0, "{text:?}");
            assert!(text.contains(r"a\u{1b}[2J\u{9b}m\u{202e}b\u{200d}"), "{text}");
        }
    }

    /// The selected row is always visible, and no size makes drawing panic.
    #[test]
    fn every_size_can_be_drawn() {
        let mut state = state();
        state.press(Key::End);
        for width in [1, 2, 10, 40, 79, 100, 300] {
            for height in [1, 2, 4, 5, 6, 7, 8, 50] {
                let text = drawn(&state, width, height);
                assert!(width < 79 || height < 8 || text.contains("nobody"), "{width}x{height}\n{text}");
            }
        }
    }

    #[test]
    fn the_help_tells_how_many_services_are_checked() {
        let lines: String = help().iter().map(ToString::to_string).collect();
        assert_eq!(super::super::problems::MAX_SERVICES, 1000);
        assert!(lines.contains("1,000 Services"), "{lines}");
    }

    #[test]
    fn colours_tell_what_needs_attention() {
        let mut terminal = Terminal::new(TestBackend::new(80, 14)).unwrap();
        let state = state();
        terminal.draw(|frame| draw(frame, &state, now(), Colors::On)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let color_of = |name: &str| {
            let line = (0..14).find(|y| {
                let text: String = (0..80).map(|x| buffer[(x, *y)].symbol().to_owned()).collect();
                text.contains(name)
            });
            buffer[(2, line.unwrap())].fg
        };
        assert_eq!(color_of("ledger"), Color::Red);
        assert_eq!(color_of("checkout"), Color::Red);
        assert_eq!(color_of("queue"), Color::Reset);
    }

    #[test]
    fn delays_are_short() {
        for (millis, want) in [
            (None, "-"),
            (Some(0), "<1s"),
            (Some(999), "<1s"),
            (Some(1_000), "1s"),
            (Some(9_999), "9s"),
            (Some(10_000), "10s"),
            (Some(3_600_000), "1h"),
        ] {
            assert_eq!(delay(millis), want);
        }
    }
}
