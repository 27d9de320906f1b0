//! Draws charts as SVG. The background is white, so that they are readable on pages of any colour.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use crate::workload::thousands;

/// Width and height.
const SIZE: (u32, u32) = (720, 400);

/// Colours that people with any kind of colour vision can tell apart.
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(150, 80, 160)];

const GRID: RGBColor = RGBColor(222, 226, 230);
const TEXT: RGBColor = RGBColor(33, 37, 41);

/// A chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chart {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) x: String,
    /// True if the x axis is linear from 0 and has many points; otherwise it is logarithmic.
    #[serde(default)]
    pub(crate) x_is_linear: bool,
    /// The quantity on the y axis, with its unit.
    pub(crate) y: String,
    /// True if the y axis is logarithmic; otherwise it begins at 0.
    pub(crate) y_is_logarithmic: bool,
    pub(crate) lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The name in the legend.
    pub(crate) name: String,
    /// The points, in the order of x.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws a chart.
pub(crate) fn svg(chart: &Chart) -> anyhow::Result<String> {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let positive =
        |value: f64, is_linear: bool| value.is_finite() && (value > 0.0 || is_linear && value == 0.0);
    let all_positive = points().all(|(x, y)| {
        positive(*x, chart.x_is_linear) && positive(*y, !chart.y_is_logarithmic && chart.x_is_linear)
    });
    if points().next().is_none() || !all_positive {
        anyhow::bail!("the chart {} needs points, with numbers above 0", chart.name);
    }
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let values = points().map(of);
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let ((_, _), (low, high)) = (bounds(|it| it.0), bounds(|it| it.1));
    let drawn = if chart.y_is_logarithmic {
        // The legend is above the lines.
        let room = if chart.x_is_linear { 10.0 } else { 1.0 };
        let top = 10_f64.powf(high.log10().ceil()).max(low * 10.0) * room;
        let decades = 10_f64.powf(low.log10().floor())..top;
        draw(chart, decades.log_scale())
    } else {
        // The legend is above the lines.
        draw(chart, 0.0..high * 1.45)
    };
    drawn.map_err(|error| anyhow::anyhow!("cannot draw the chart {}: {error}", chart.name))
}

type Drawn = Result<String, Box<dyn std::error::Error + Send + Sync>>;

fn draw<Y>(chart: &Chart, y: Y) -> Drawn
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let xs = || chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    if chart.x_is_linear {
        draw_on(chart, 0.0..high, y)
    } else {
        draw_on(chart, (low / 1.15..high * 1.15).log_scale(), y)
    }
}

fn draw_on<X, Y>(chart: &Chart, x: X, y: Y) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut context = ChartBuilder::on(&root)
            .caption(&chart.title, ("sans-serif", 19).into_font().color(&TEXT))
            .margin(12)
            .margin_right(24)
            .x_label_area_size(46)
            .y_label_area_size(70)
            .build_cartesian_2d(x, y)?;
        context
            .configure_mesh()
            .x_desc(&chart.x)
            .y_desc(&chart.y)
            .x_labels(6)
            .y_labels(8)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(TEXT)
            .label_style(("sans-serif", 14).into_font().color(&TEXT))
            .axis_desc_style(("sans-serif", 15).into_font().color(&TEXT))
            .x_label_formatter(&|value| axis_number(*value))
            .y_label_formatter(&|value| axis_number(*value))
            .draw()?;
        for (line, colour) in chart.lines.iter().zip(COLOURS.into_iter().cycle()) {
            let points = || line.points.iter().copied();
            context
                .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            if !chart.x_is_linear {
                context.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
            }
        }
        context
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(GRID)
            .label_font(("sans-serif", 14).into_font().color(&TEXT))
            .draw()?;
        root.present()?;
    }
    Ok(text)
}

/// Returns a number at an axis.
fn axis_number(value: f64) -> String {
    if value >= 10.0 || value == 0.0 {
        thousands(value.round() as usize)
    } else {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(y_is_logarithmic: bool) -> Chart {
        Chart {
            name: "cpu-by-services".into(),
            title: "CPU of a change".into(),
            x: "Services".into(),
            x_is_linear: false,
            y: "milliseconds".into(),
            y_is_logarithmic,
            lines: vec![
                Line { name: "first".into(), points: vec![(100.0, 1.2), (1_000.0, 1.3), (10_000.0, 1.25)] },
                Line { name: "second".into(), points: vec![(100.0, 2.0), (10_000.0, 40.0)] },
            ],
        }
    }

    #[test]
    fn a_chart_has_axes_lines_and_a_legend() {
        for y_is_logarithmic in [false, true] {
            let svg = svg(&chart(y_is_logarithmic)).unwrap();
            for text in ["CPU of a change", "Services", "milliseconds", "10,000", "first", "second"] {
                assert!(svg.contains(&format!("\n{text}\n")), "{text} is missing in {svg}");
            }
            assert_eq!(svg.matches("<circle").count(), 5);
            assert!(svg.len() < 60_000);
        }
    }

    #[test]
    fn a_chart_without_points_is_an_error() {
        let check = |lines: Vec<Line>| {
            let error = svg(&Chart { lines, ..chart(true) }).unwrap_err().to_string();
            assert_eq!(error, "the chart cpu-by-services needs points, with numbers above 0");
        };
        check(Vec::new());
        check(vec![Line { name: "a".into(), points: vec![(0.0, 1.0)] }]);
        check(vec![Line { name: "a".into(), points: vec![(1.0, f64::NAN)] }]);
    }

    #[test]
    fn a_linear_x_axis_begins_at_0_and_has_no_dots() {
        let lines = vec![Line { name: "first".into(), points: vec![(0.0, 0.0), (2.0, 1.0)] }];
        let chart = Chart { x_is_linear: true, lines, ..chart(false) };
        let svg = svg(&chart).unwrap();
        assert!(svg.contains("<polyline") && !svg.contains("<circle"), "{svg}");
    }

    #[test]
    fn numbers_at_axes() {
        let check = |value, want: &str| assert_eq!(axis_number(value), want);
        check(0.0, "0");
        check(0.25, "0.25");
        check(2.0, "2");
        check(150_000.0, "150,000");
    }
}
