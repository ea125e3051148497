//! Curves as SVG, both axes logarithmic.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::prelude::*;

use crate::Result;
use crate::scale::{Figure, Point};

/// A colour for each series, the same in all plots, distinct for the colour-blind too (Okabe and Ito). seslog is first and
/// black.
const COLOURS: &[(&str, RGBColor)] = &[
    ("seslog", RGBColor(0, 0, 0)),
    ("seslog-catalog", RGBColor(204, 121, 167)),
    ("jsonl", RGBColor(230, 159, 0)),
    ("mcap", RGBColor(86, 180, 233)),
    ("redb", RGBColor(0, 158, 115)),
    ("sqlite-full", RGBColor(213, 94, 0)),
];

/// Draws the points of a figure; `false` if there are none.
pub fn draw(figure: &Figure, points: &[Point], path: &Path) -> Result<bool> {
    let mut series: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for point in points.iter().filter(|point| point.figure == figure.name) {
        series.entry(&point.series).or_default().push((point.x, point.y));
    }
    let all: Vec<(f64, f64)> = series.values().flatten().copied().collect();
    let Some(first) = all.first().copied() else { return Ok(false) };
    let (mut x, mut y) = ((first.0, first.0), (first.1, first.1));
    for (px, py) in all {
        x = (x.0.min(px), x.1.max(px));
        y = (y.0.min(py), y.1.max(py));
    }
    let root = SVGBackend::new(path, (760, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    // The legend stands beside the chart, where it covers no curve.
    let (area, legend) = root.split_horizontally(620);
    let mut chart = ChartBuilder::on(&area)
        .caption(figure.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d((x.0 / 1.2..x.1 * 1.2).log_scale(), (y.0 / 1.6..y.1 * 1.6).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(figure.x)
        .y_desc(figure.y)
        .x_label_formatter(&|value| number(*value))
        .y_label_formatter(&|value| number(*value))
        .light_line_style(WHITE)
        .draw()?;
    let drawn = COLOURS.iter().filter_map(|(name, colour)| Some((*name, *colour, series.remove(name)?)));
    for (line, (name, colour, points)) in (0_i32..).zip(drawn) {
        chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
        let y = 60 + 20 * line;
        legend.draw(&PathElement::new([(4, y), (24, y)], colour.stroke_width(2)))?;
        legend.draw(&Text::new(name, (30, y - 6), ("sans-serif", 13)))?;
    }
    if let Some(name) = series.keys().next() {
        return Err(format!("{name} has no colour").into());
    }
    root.present()?;
    Ok(true)
}

/// A number of an axis, without the digits that its logarithm left behind.
fn number(value: f64) -> String {
    let rounded = (value * 1e4).round() / 1e4;
    format!("{rounded}")
}
