//! The columns of the table of `top`, as many as there is room for.

use jiff::Timestamp;
use kube_endpoint_explain::age;
use kube_endpoint_explain::figures::Row;

use super::state::{Column, State};
use super::view::{delay, shown};

/// The width of the longest name of a namespace, and that of a Service if other columns need room.
const NAMESPACE: usize = 20;
const SERVICE: usize = 30;
/// The width of a Service's name that makes the names of problems go.
const SHORT_SERVICE: usize = 20;
/// The least width of a Service's name.
const LEAST_SERVICE: usize = 10;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Namespace,
    Service,
    Problem,
    Ready,
    Slices,
    Full,
    Writes,
    AllWrites,
    Delay,
    Written,
}

impl Part {
    /// The columns of figures, the most important first. Where there is no room, the last one goes
    /// first.
    const FIGURES: [Self; 7] =
        [Self::Ready, Self::Slices, Self::Full, Self::Delay, Self::Writes, Self::Written, Self::AllWrites];

    /// Returns the heading, and what the rows are sorted by if the column sorts them.
    fn heading(self) -> (&'static str, Option<Column>) {
        match self {
            Self::Namespace => ("NAMESPACE", None),
            Self::Service => ("SERVICE", Some(Column::Name)),
            Self::Problem => ("PROBLEM", Some(Column::Problem)),
            Self::Ready => ("READY", Some(Column::Ready)),
            Self::Slices => ("SLICES", Some(Column::Slices)),
            Self::Full => ("FULL", Some(Column::Full)),
            Self::Writes => ("W/MIN", Some(Column::Writes)),
            Self::AllWrites => ("W/15M", None),
            Self::Delay => ("DELAY", Some(Column::Delay)),
            Self::Written => ("WRITTEN", Some(Column::Written)),
        }
    }

    /// Returns the width of a column of figures.
    fn width(self) -> usize {
        match self {
            Self::Ready => 9,
            // The longest heading has an arrow.
            part => part.heading().0.len() + usize::from(part.heading().1.is_some()),
        }
    }
}

/// The shown columns from left to right, with their widths.
pub(super) struct Columns {
    parts: Vec<(Part, usize)>,
    /// True if problems are shown with their names.
    with_names: bool,
}

impl Columns {
    /// Chooses the columns for a table of this width. The code of a problem is never cut.
    pub(super) fn fitting(state: &State, room: usize) -> Self {
        let longest = |width: &dyn Fn(&Row) -> usize| state.rows.iter().map(width).max().unwrap_or_default();
        let namespace =
            longest(&|row| width(&row.service.namespace)).clamp(Part::Namespace.width(), NAMESPACE);
        let service = longest(&|row| width(&row.service.name)).clamp(LEAST_SERVICE, SERVICE);
        let problem = |with_name: bool| {
            let longest = longest(&|row| state.problems.text(&row.service, with_name).len());
            longest.max(Part::Problem.width())
        };
        // A space is between two columns.
        let room = room + 1;
        let others = namespace + 1 + Part::Ready.width() + 1;
        let with_names = others + service.min(SHORT_SERVICE) + 1 + problem(true) < room;
        let problem = problem(with_names);
        let service = service.min(room.saturating_sub(others + problem + 2)).max(LEAST_SERVICE);
        let sorted = Part::FIGURES.into_iter().find(|part| part.heading().1 == Some(state.sort));
        let figures = Part::FIGURES.into_iter().filter(|part| Some(*part) != sorted);
        let figures = sorted.into_iter().chain(figures).map(|part| (part, part.width()));
        let names = [(Part::Problem, problem), (Part::Service, service), (Part::Namespace, namespace)];
        let mut left = room;
        let fits = |(_, width): &(Part, usize)| {
            let has_room = *width < left;
            left = left.saturating_sub(width + 1);
            has_room
        };
        let mut parts: Vec<(Part, usize)> = names.into_iter().chain(figures).take_while(fits).collect();
        let used: usize = parts.iter().map(|(_, width)| width + 1).sum();
        if let Some((_, service)) = parts.iter_mut().find(|(part, _)| *part == Part::Service) {
            *service += room.saturating_sub(used);
        }
        parts.sort_unstable();
        Self { parts, with_names }
    }

    pub(super) fn widths(&self) -> impl Iterator<Item = u16> {
        self.parts.iter().map(|(_, width)| u16::try_from(*width).unwrap_or(u16::MAX))
    }

    /// Returns the headings. An arrow marks the column that sorts the rows.
    pub(super) fn headings(&self, state: &State) -> impl Iterator<Item = String> {
        let arrow = if state.reversed { "↑" } else { "↓" };
        let sort = state.sort;
        self.parts.iter().map(move |(part, _)| match part.heading() {
            (text, Some(column)) if column == sort => format!("{text}{arrow}"),
            (text, _) => text.to_owned(),
        })
    }

    pub(super) fn cells(&self, state: &State, row: &Row, now: Timestamp) -> impl Iterator<Item = String> {
        self.parts.iter().map(move |(part, _)| match part {
            Part::Namespace => shown(&row.service.namespace).into_owned(),
            Part::Service => shown(&row.service.name).into_owned(),
            Part::Problem => state.problems.text(&row.service, self.with_names),
            Part::Ready => format!("{}/{}", row.ready, row.endpoints),
            Part::Slices => row.slices.to_string(),
            Part::Full => row.fill_percent.map_or_else(|| "-".to_owned(), |it| format!("{it}%")),
            Part::Writes => row.writes_last_minute.to_string(),
            Part::AllWrites => row.writes.to_string(),
            Part::Delay => delay(row.delay_millis),
            Part::Written => {
                let ago = row.last_write.map(|time| age::seconds(age::since(time, now)));
                ago.unwrap_or_else(|| "-".to_owned())
            }
        })
    }
}

fn width(text: &str) -> usize {
    shown(text).chars().count()
}

#[cfg(test)]
mod tests {
    use super::super::state::Key;
    use super::super::state::tests::state;
    use super::*;

    fn headings(state: &State, room: usize) -> String {
        let columns = Columns::fitting(state, room);
        let used: usize = columns.widths().map(|width| usize::from(width) + 1).sum();
        assert!(used <= room + 1, "{used} of {room}");
        columns.headings(state).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_least_important_goes_first() {
        let mut state = state();
        let names = "NAMESPACE SERVICE PROBLEM↓ READY";
        for (room, want) in [
            (97, format!("{names} SLICES FULL W/MIN W/15M DELAY WRITTEN")),
            (96, format!("{names} SLICES FULL W/MIN DELAY WRITTEN")),
            (90, format!("{names} SLICES FULL W/MIN DELAY")),
            (81, format!("{names} SLICES FULL DELAY")),
            (74, format!("{names} SLICES FULL")),
            (67, format!("{names} SLICES")),
            (61, names.to_owned()),
            (20, "SERVICE PROBLEM↓".to_owned()),
            (9, "PROBLEM↓".to_owned()),
        ] {
            assert_eq!(headings(&state, room), want, "{room}");
        }
        // The column that sorts the rows stays.
        state.press(Key::Char('W'));
        assert_eq!(headings(&state, 64), "NAMESPACE SERVICE PROBLEM READY W/MIN↓");
    }

    #[test]
    fn a_code_is_never_cut() {
        let state = state();
        for room in 8..200 {
            let columns = Columns::fitting(&state, room);
            let width = columns.parts.iter().find(|(part, _)| *part == Part::Problem).unwrap().1;
            for row in &state.rows {
                let cells: Vec<String> =
                    columns.cells(&state, row, super::super::state::tests::now()).collect();
                assert!(
                    cells.iter().any(|cell| *cell == state.problems.text(&row.service, columns.with_names))
                );
                assert!(state.problems.text(&row.service, columns.with_names).len() <= width);
            }
        }
    }
}
