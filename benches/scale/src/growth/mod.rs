//! `scale growth`: measures how CPU, memory and planning grow with a cluster.

mod planning;
mod processes;

use std::path::Path;

use anyhow::Context;
use kube_endpoint_processes::load_average;
use serde::{Deserialize, Serialize};

use crate::options::{GrowthOptions, PlotOptions, SeriesName};
use crate::plot::{Chart, svg};
use crate::print;
use crate::report::aligned;
use crate::run::{check_writable, default_command, write};
use crate::workload::thousands;

/// The results of `scale growth`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Growth {
    /// The command of the controller.
    command: String,
    cpus: usize,
    /// The load average of the last minute before the first measurement.
    load_average: Option<f64>,
    charts: Vec<Chart>,
}

/// Measures, prints the figures and writes them.
pub(crate) async fn run(options: &GrowthOptions) -> anyhow::Result<()> {
    let wanted = |name| options.only.is_empty() || options.only.contains(&name);
    let needs_program = [SeriesName::Services, SeriesName::Pods, SeriesName::Memory].into_iter().any(wanted);
    let command = match &options.command {
        Some(command) => command.clone(),
        None if needs_program => default_command()?,
        None => String::new(),
    };
    check_writable(&options.json)?;
    let mut growth = Growth {
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
        load_average: load_average(),
        charts: Vec::new(),
        command,
    };
    let measured = processes::Measured { command: &growth.command, options };
    if wanted(SeriesName::Services) {
        growth.charts.push(measured.cpu_by_services().await?);
    }
    if wanted(SeriesName::Pods) {
        growth.charts.push(measured.cpu_by_pods().await?);
    }
    if wanted(SeriesName::Memory) {
        growth.charts.push(measured.memory_by_pods().await?);
    }
    if wanted(SeriesName::Planning) {
        growth.charts.push(planning::time_by_endpoints(options.limit));
    }
    for chart in &growth.charts {
        print(&format!("{}\n\n{}\n", chart.title, table(chart)))?;
    }
    write(&options.json, &(serde_json::to_string_pretty(&growth)? + "\n"))?;
    match &options.output {
        Some(folder) => draw(&growth, folder),
        None => Ok(()),
    }
}

/// Makes plots of figures from a file.
pub(crate) fn plot(options: &PlotOptions) -> anyhow::Result<()> {
    let named = || format!("{}", options.file.display());
    let text = std::fs::read_to_string(&options.file).with_context(named)?;
    let growth: Growth = serde_json::from_str(&text)
        .with_context(|| format!("{} is no file that `scale growth` wrote", options.file.display()))?;
    draw(&growth, &options.output)
}

fn draw(growth: &Growth, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    growth
        .charts
        .iter()
        .try_for_each(|chart| write(&folder.join(format!("{}.svg", chart.name)), &svg(chart)?))
}

/// Returns the figures of a chart: a row for each x, and how many times the largest figure of each
/// line is that of the smallest x.
fn table(chart: &Chart) -> String {
    let mut rows = vec![vec![chart.x.clone()]];
    rows[0].extend(chart.lines.iter().map(|line| line.name.clone()));
    let mut xs: Vec<f64> =
        chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    for x in xs {
        let value =
            |line: &crate::plot::Line| line.points.iter().find(|point| point.0 == x).map(|point| point.1);
        let cell = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        let mut row = vec![thousands(x as usize)];
        row.extend(chart.lines.iter().map(|line| cell(value(line))));
        rows.push(row);
    }
    let mut growth = vec!["largest / first".to_owned()];
    growth.extend(chart.lines.iter().map(|line| {
        let first = line.points.first().map_or(f64::NAN, |point| point.1);
        let largest = line.points.iter().map(|point| point.1).fold(0.0, f64::max);
        format!("{:.2}", largest / first)
    }));
    rows.push(growth);
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Line;

    fn growth() -> Growth {
        let points =
            |factor: f64| [(100.0, factor), (1_000.0, 1.2 * factor), (10_000.0, 1.1 * factor)].to_vec();
        let line = |name: &str, factor| Line { name: name.into(), points: points(factor) };
        let chart = Chart {
            name: "a".into(),
            title: "CPU of a change".into(),
            x: "Services".into(),
            x_is_linear: false,
            y: "milliseconds".into(),
            y_is_logarithmic: false,
            lines: vec![line("CPU", 1.5), line("other", 3.0)],
        };
        Growth { command: "manager".into(), cpus: 2, load_average: None, charts: vec![chart] }
    }

    #[test]
    fn the_table_says_how_much_it_grows() {
        insta::assert_snapshot!(table(&growth().charts[0]));
    }

    #[test]
    fn plots_are_made_again_from_the_figures() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("growth.json");
        let options = PlotOptions { file: file.clone(), output: folder.path().join("plots/new") };
        std::fs::write(&file, "{}").unwrap();
        assert!(
            format!("{:#}", plot(&options).unwrap_err()).contains("is no file that `scale growth` wrote")
        );
        std::fs::write(&file, serde_json::to_string(&growth()).unwrap()).unwrap();
        plot(&options).unwrap();
        assert!(std::fs::read_to_string(options.output.join("a.svg")).unwrap().starts_with("<svg"));
    }
}
