//! The result as text.

use std::fmt::Write;
use std::time::Duration;

use crate::builds::Builds;
use crate::hand_over::Row;

const COLUMNS: [&str; 7] =
    ["leader ends by", "first write", "longest wait", "writes", "not needed", "refused", "this would write"];

/// Returns a table for each direction.
pub(crate) fn table(builds: &Builds, rows: &[Row]) -> String {
    let mut text = String::new();
    let left_out = builds.left_out();
    if !left_out.is_empty() {
        let _ = writeln!(text, "\nleft out, as one of them does not know it: {}", left_out.join(", "));
    }
    for to_this in [true, false] {
        let (from, to) = if to_this { (&builds.other, &builds.this) } else { (&builds.this, &builds.other) };
        let _ = writeln!(text, "\nfrom {} to {}", from.name, to.name);
        line(&mut text, COLUMNS.map(str::to_owned), "");
        for row in rows.iter().filter(|row| row.to_this == to_this) {
            let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
            let mut cells = [row.end.name(), "-", "-", "-", "-", "-", "-"].map(str::to_owned);
            if let Some(it) = &row.figures {
                cells[1..3].clone_from_slice(&[seconds(it.first_write), seconds(it.longest_wait)]);
                let counts = [it.writes, it.needless, it.refused, it.this_would_write];
                cells[3..].clone_from_slice(&counts.map(|count| count.to_string()));
            }
            line(&mut text, cells, if row.faults.is_empty() { "right" } else { "WRONG" });
            for fault in &row.faults {
                let _ = writeln!(text, "      {fault}");
            }
        }
    }
    text
}

fn line(text: &mut String, cells: [String; 7], verdict: &str) {
    let [end, rest @ ..] = cells;
    let rest: String = rest
        .iter()
        .zip(COLUMNS[1..].iter())
        .map(|(cell, title)| format!("  {cell:>0$}", title.len().max(7)))
        .collect();
    let _ = writeln!(text, "  {end:<26}{rest}  {verdict}");
}
