//! Plots as SVG.

use std::fmt::Write;

const ROW: f64 = 24.0;
const NAMES: f64 = 130.0;
const BARS: f64 = 400.0;
const VALUES: f64 = 250.0;
/// A bar that is this many times as long as the next one is cut, so that the others can be seen.
const FAR_LONGER: f64 = 4.0;

/// A bar with its name and what is said about it.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) label: String,
}

/// A line through points of a plot with two logarithmic axes.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<[f64; 2]>,
}

impl Line {
    fn last_value(&self) -> f64 {
        self.points.last().map_or(0.0, |[_, y]| *y)
    }
}

/// The same for a participant in each plot.
fn colour(name: &str) -> &'static str {
    match name {
        "floor" => "#9aa5b1",
        "zk-recipes" => "#c2410c",
        "Curator" => "#2563a8",
        "kazoo" => "#b8860b",
        "zookeeper-client" => "#5b7f5b",
        "Redis" => "#8b5a8c",
        _ => "#4b8b9b",
    }
}

/// Horizontal bars; `mark` is where the goal is.
pub(super) fn bars(bars: &[Bar], mark: Option<f64>) -> String {
    let longest = scale(bars, mark);
    let (width, height) = (NAMES + BARS + VALUES, ROW * bars.len() as f64 + 8.0);
    let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\">");
    for (row, bar) in bars.iter().enumerate() {
        let top = 4.0 + ROW * row as f64;
        let text = top + ROW * 0.66;
        let length = (BARS * bar.value / longest).clamp(1.0, BARS);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{:.1}\" rx=\"2\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{text:.1}\" class=\"value\">{}</text>",
            NAMES - 8.0,
            bar.name,
            top + 3.0,
            ROW - 6.0,
            colour(bar.name),
            NAMES + length + 6.0,
            bar.label,
        );
        if bar.value > longest {
            let (cut, bottom) = (NAMES + BARS * 0.93, top + ROW);
            let _ = write!(svg, "<path d=\"M{cut} {bottom} l8 -{ROW}\" stroke=\"#fff\" stroke-width=\"5\"/>");
        }
    }
    if let Some(mark) = mark {
        let x = NAMES + BARS * mark / longest;
        let _ = write!(svg, "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height}\" class=\"goal\"/>");
    }
    svg + "</svg>"
}

/// What a bar of the full length stands for.
fn scale(bars: &[Bar], mark: Option<f64>) -> f64 {
    let mut values: Vec<f64> = bars.iter().map(|bar| bar.value).chain(mark).collect();
    values.sort_by(f64::total_cmp);
    match values[..] {
        [.., next, longest] if longest > FAR_LONGER * next => next * 1.1,
        [.., longest] => longest,
        [] => 1.0,
    }
}

/// Powers of ten around all values.
fn decades(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let [low, high] =
        values.fold([f64::MAX, f64::MIN], |[low, high], value| [low.min(value), high.max(value)]);
    [low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0)]
}

/// Lines over two logarithmic axes, with a label at the end of each.
pub(super) fn lines(lines: &[Line], x_title: &str, y_label: impl Fn(f64) -> String) -> String {
    const LEFT: f64 = 70.0;
    const TOP: f64 = 10.0;
    const WIDTH: f64 = 540.0;
    const HEIGHT: f64 = 280.0;
    let points = || lines.iter().flat_map(|line| &line.points);
    let [x_low, x_high] = decades(points().map(|[x, _]| *x));
    let [y_low, y_high] = decades(points().map(|[_, y]| *y));
    let x_at = |x: f64| LEFT + WIDTH * (x.log10() - x_low) / (x_high - x_low);
    let y_at = |y: f64| TOP + HEIGHT * (y_high - y.log10()) / (y_high - y_low);
    let mut svg =
        format!("<svg viewBox=\"0 0 {} {}\" role=\"img\">", NAMES + BARS + VALUES, TOP + HEIGHT + 45.0);
    let (bottom, right) = (TOP + HEIGHT, LEFT + WIDTH);
    for decade in x_low as i32..=x_high as i32 {
        let value = 10_f64.powi(decade);
        let x = x_at(value);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" class=\"grid\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" class=\"value\">{value}</text>",
            bottom + 18.0,
        );
    }
    for decade in y_low as i32..=y_high as i32 {
        let value = 10_f64.powi(decade);
        let y = y_at(value);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"grid\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" class=\"value\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            y_label(value),
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x_title}</text>",
        LEFT + WIDTH / 2.0,
        bottom + 38.0,
    );
    let mut labels = Vec::new();
    let mut lines: Vec<_> = lines.iter().collect();
    // From the top, as labels give way downwards.
    lines.sort_by(|a, b| b.last_value().total_cmp(&a.last_value()));
    for line in lines {
        let colour = colour(line.name);
        let places: Vec<_> = line.points.iter().map(|[x, y]| [x_at(*x), y_at(*y)]).collect();
        let path: Vec<_> = places.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for [x, y] in &places {
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
        }
        if let Some([x, y]) = places.last() {
            let y = free_height(&mut labels, *x, *y);
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" class=\"name\" style=\"fill: {colour}\">{}</text>",
                x + 8.0,
                y + 4.0,
                line.name
            );
        }
    }
    svg + "</svg>"
}

/// Where a label at the end of a line does not lie upon another one.
fn free_height(labels: &mut Vec<[f64; 2]>, x: f64, mut y: f64) -> f64 {
    const LABEL: [f64; 2] = [110.0, 15.0];
    while labels
        .iter()
        .any(|[other_x, other_y]| (other_x - x).abs() < LABEL[0] && (other_y - y).abs() < LABEL[1])
    {
        y += 1.0;
    }
    labels.push([x, y]);
    y
}
