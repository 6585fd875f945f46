//! The page: plots, and below them all figures.

use std::fmt::Write;

use super::plot::{self, Bar, Line};
use super::table::{ratio, table, time};
use super::verdict::verdict;
use super::{Comparison, Measured, NOTES};
use crate::cases::Goal;
use crate::load::Load;
use crate::participants::{CURATOR, FLOOR};
use crate::summary::Figures;

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; background: #fff; max-width: 800px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em; margin-bottom: 0 } h2 { font-size: 1.1em; margin: 2em 0 0 }
p, li { color: #52606d } .met { color: #2f7d4f } .missed { color: #b42318 }
svg { width: 100%; margin-top: .4em }
pre { font-size: 11px; overflow-x: auto; background: #f7f8f9; padding: 1em }
";
/// Of the plots, on the page and by themselves.
const PLOT_STYLE: &str = "
svg text { font: 13px system-ui, sans-serif; fill: #1f2933 } svg .value { fill: #52606d }
svg .name { paint-order: stroke; stroke: #fff; stroke-width: 4px }
.grid { stroke: #e4e7eb } .goal { stroke: #1f2933; stroke-dasharray: 4 3 }";

pub(super) fn text(comparison: &Comparison) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Locks side by side</title>\n\
         <style>{STYLE}{PLOT_STYLE}</style>\n<h1>Locks side by side</h1>\n<p>{}</p>\n",
        escaped(&comparison.headline()),
    );
    for measured in &comparison.measured {
        if !matches!(measured.case.load, Load::HandOver { .. }) {
            page += &section(comparison, measured);
        }
    }
    page += &hand_over(comparison);
    page += "<h2>What to know with it</h2>\n<ul>\n";
    for note in NOTES {
        let _ = writeln!(page, "<li>{}</li>", escaped(note));
    }
    let _ = write!(
        page,
        "</ul>\n<h2>All figures</h2>\n<pre>{}</pre>\n</html>\n",
        escaped(table(comparison).trim())
    );
    page
}

/// The plots by themselves, with names for their files.
pub(super) fn plots(comparison: &Comparison) -> Vec<(String, String)> {
    let mut plots: Vec<(String, String)> = Vec::new();
    for measured in &comparison.measured {
        let (name, plot) = match measured.case.load {
            Load::HandOver { .. } => ("hand-over", hand_over_plot(comparison).unwrap_or_default()),
            _ => (&*measured.case.name, bars(measured)),
        };
        let name = if measured.servers == 1 { name.to_owned() } else { format!("{name}-ensemble") };
        if !plots.iter().any(|(known, _)| *known == name) {
            let opening = "<svg xmlns=\"http://www.w3.org/2000/svg\" style=\"background: #fff\"";
            let styled =
                plot.replacen("<svg", opening, 1).replacen('>', &format!("><style>{PLOT_STYLE}</style>"), 1);
            plots.push((name, styled));
        }
    }
    plots
}

fn section(comparison: &Comparison, measured: &Measured) -> String {
    heading(comparison, measured, &measured.case.title) + &bars(measured) + "\n"
}

fn bars(measured: &Measured) -> String {
    let bars: Vec<_> = measured.figures.iter().filter_map(|figures| bar(measured, figures)).collect();
    let mark = match measured.case.goal {
        Some(Goal::TimesFloor(most)) => median(measured, FLOOR).map(|median| median * most),
        Some(Goal::TimesCurator(least)) => {
            measured.of(CURATOR).and_then(|curator| curator.rate).map(|rate| rate * least)
        }
        Some(Goal::Nanoseconds(most) | Goal::Bytes(most)) => Some(most),
        Some(Goal::TimesShortestQueue(_)) | None => None,
    };
    plot::bars(&bars, mark)
}

fn heading(comparison: &Comparison, measured: &Measured, title: &str) -> String {
    let servers = if measured.servers == 1 { "" } else { ", on an ensemble of 3" };
    let mut text = format!("<h2>{}{servers}</h2>\n", escaped(title));
    if let Some(verdict) = verdict(comparison, measured) {
        let (class, met) = if verdict.is_met { ("met", "met") } else { ("missed", "not met") };
        let (reached, goal) = (escaped(&verdict.reached), escaped(&verdict.goal));
        let _ = writeln!(text, "<p>{reached}; the goal, {goal}, is <b class=\"{class}\">{met}</b></p>");
    }
    text
}

/// The rate under contention, where longer is better; the median or the memory otherwise.
fn bar(measured: &Measured, figures: &Figures) -> Option<Bar> {
    let (value, mut label) = match (measured.case.load, figures.latency, figures.bytes_per_waiter) {
        (Load::Contend { .. } | Load::Count { .. }, ..) => (figures.rate?, format!("{:.0}/s", figures.rate?)),
        (_, Some(latency), _) => (latency.p50, time(latency.p50)),
        (_, None, bytes) => (bytes?, format!("{:.0} bytes", bytes?)),
    };
    for other in [FLOOR, CURATOR] {
        if let Some(ratio) = ratio(measured, figures, other).filter(|_| figures.participant != other) {
            let _ = write!(label, ", {ratio:.2}x {other}");
        }
    }
    Some(Bar { name: figures.participant, value, label })
}

fn median(measured: &Measured, participant: &str) -> Option<f64> {
    measured.of(participant)?.latency.map(|latency| latency.p50)
}

fn hand_over(comparison: &Comparison) -> String {
    let Some(plot) = hand_over_plot(comparison) else { return String::new() };
    let title = "Hand-over from one session to the next, by the length of the queue";
    let is_judged = |measured: &&Measured| {
        matches!(measured.case.load, Load::HandOver { .. }) && verdict(comparison, measured).is_some()
    };
    let text = match comparison.measured.iter().find(is_judged) {
        Some(judged) => heading(comparison, judged, title),
        None => format!("<h2>{title}</h2>\n"),
    };
    text + &plot + "\n"
}

/// Medians over the length of the queue.
fn hand_over_plot(comparison: &Comparison) -> Option<String> {
    let mut lines: Vec<Line> = Vec::new();
    for measured in &comparison.measured {
        let Load::HandOver { waiters, .. } = measured.case.load else { continue };
        for figures in &measured.figures {
            let Some(latency) = figures.latency else { continue };
            let point = [waiters as f64, latency.p50];
            match lines.iter_mut().find(|line| line.name == figures.participant) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { name: figures.participant, points: vec![point] }),
            }
        }
    }
    (!lines.is_empty()).then(|| plot::lines(&lines, "waiters", time))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
