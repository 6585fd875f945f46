//! The table on the terminal.

use std::fmt::Write;

use super::verdict::verdict;
use super::{Comparison, Measured, NOTES};
use crate::load::Load;
use crate::participants::{CURATOR, FLOOR};
use crate::summary::{Cost, Figures, Latency};

const HEADINGS: [&str; 13] = [
    "",
    "memory",
    "p50",
    "p99",
    "cycles/s",
    "x floor",
    "x Curator",
    "requests",
    "replies",
    "bytes out/in",
    "client CPU",
    "server CPU",
    "grants",
];

pub(crate) fn table(comparison: &Comparison) -> String {
    let mut text = format!("\n{}\n", comparison.headline());
    for measured in &comparison.measured {
        let servers = if measured.servers == 1 { "" } else { ", ensemble of 3" };
        let _ = write!(text, "\n{}{servers} ({})", measured.case.title, measured.case.name);
        if let Some(verdict) = verdict(comparison, measured) {
            let met = if verdict.is_met { "met" } else { "NOT MET" };
            let _ = write!(text, ": {}; goal {}: {met}", verdict.reached, verdict.goal);
        }
        text.push('\n');
        let rows: Vec<_> = measured.figures.iter().map(|figures| row(measured, figures)).collect();
        text += &aligned(&rows);
    }
    text.push('\n');
    for note in NOTES {
        let _ = writeln!(text, "- {note}");
    }
    text
}

/// The cells below [`HEADINGS`]; those without a figure are empty.
fn row(measured: &Measured, figures: &Figures) -> [String; 13] {
    let [to_floor, to_curator] = [FLOOR, CURATOR].map(|other| ratio_text(measured, figures, other));
    let latency = |part: fn(&Latency) -> f64| figures.latency.as_ref().map(part).map(time);
    let cost = |part: fn(&Cost) -> f64| figures.cost.as_ref().map(part);
    [
        Some(figures.participant.to_owned()),
        figures.bytes_per_waiter.map(|bytes| format!("{bytes:.0} B")),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        figures
            .rate
            .filter(|_| !matches!(measured.case.load, Load::HandOver { .. } | Load::Succession { .. }))
            .map(|rate| format!("{rate:.0}")),
        to_floor,
        to_curator,
        cost(|cost| cost.requests)
            .filter(|requests| *requests > 0.0)
            .map(|requests| format!("{requests:.2}")),
        cost(|cost| cost.replies).filter(|replies| *replies > 0.0).map(|replies| format!("{replies:.2}")),
        figures.traffic.map(|traffic| format!("{:.0}/{:.0}", traffic.to_server, traffic.to_client)),
        cost(|cost| cost.client).map(|microseconds| format!("{microseconds:.0} us")),
        cost(|cost| cost.server).map(|microseconds| format!("{microseconds:.0} us")),
        figures.spread.map(|[fewest, most]| format!("{fewest}..{most}")),
    ]
    .map(Option::unwrap_or_default)
}

/// How many times that of another: of the rate under contention, of the median or the memory otherwise.
pub(super) fn ratio(measured: &Measured, figures: &Figures, other: &str) -> Option<f64> {
    let other = measured.of(other)?;
    if let Load::Contend { .. } | Load::Count { .. } = measured.case.load {
        return Some(figures.rate? / other.rate?);
    }
    let measure = |figures: &Figures| figures.latency.map(|latency| latency.p50).or(figures.bytes_per_waiter);
    Some(measure(figures)? / measure(other)?)
}

fn ratio_text(measured: &Measured, figures: &Figures, other: &str) -> Option<String> {
    ratio(measured, figures, other).map(|ratio| format!("{ratio:.2}"))
}

pub(super) fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        short if short < 10_000.0 => format!("{short:.0} ns"),
        medium if medium < 10_000_000.0 => format!("{:.0} us", medium / 1e3),
        long => format!("{:.1} ms", long / 1e6),
    }
}

fn aligned(rows: &[[String; 13]]) -> String {
    let headings = HEADINGS.map(str::to_owned);
    let width =
        |column: usize| rows.iter().chain([&headings]).map(|row| row[column].len()).max().unwrap_or(0);
    let used: Vec<usize> =
        (0..HEADINGS.len()).filter(|column| rows.iter().any(|row| !row[*column].is_empty())).collect();
    let mut text = String::new();
    for row in [&headings].into_iter().chain(rows) {
        text.push_str("   ");
        for &column in &used {
            let (cell, width) = (&row[column], width(column));
            let _ = match column {
                0 => write!(text, " {cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}
