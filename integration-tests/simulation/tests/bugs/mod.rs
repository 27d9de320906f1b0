//! Public bugs of the controllers of Kubernetes and of others that write or read endpoints. Each
//! has a row, named by its project and number, and what shows that it cannot happen here: a history
//! of `tests/histories`, or a test elsewhere. `docs/bugs-replayed.md` is made from the rows.

#[macro_use]
mod row;

mod caches;
mod families_and_ports;
#[path = "../../../../crates/explain/tests/generated.rs"]
mod generated;
mod hints;
mod lifecycle;
mod limits_and_writes;
mod mirroring;
mod other_clients;
mod page;
mod pods;
mod processes;
mod projects;

use std::collections::BTreeSet;

use row::{Shown, Theme};

/// The themes, in the order of the page.
const THEMES: [Theme; 9] = [
    caches::ROWS,
    lifecycle::ROWS,
    other_clients::ROWS,
    pods::ROWS,
    families_and_ports::ROWS,
    hints::ROWS,
    mirroring::ROWS,
    limits_and_writes::ROWS,
    processes::ROWS,
];

/// The names of the histories that the tests of this module play.
pub(crate) fn histories() -> BTreeSet<&'static str> {
    let bugs = THEMES.iter().flat_map(|theme| theme.bugs);
    let histories = bugs.filter_map(|bug| match bug.shown {
        Shown::History(history) => Some(history),
        Shown::Test(_) => None,
    });
    histories.collect()
}
