//! Whether a goal is reached.

use super::{Comparison, Measured};
use crate::cases::Goal;
use crate::participants::{CURATOR, FLOOR, OURS};
use crate::summary::Figures;

#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) goal: String,
    /// Ours, in the words of the goal.
    pub(super) reached: String,
    pub(super) is_met: bool,
}

/// None without a goal, or without somebody to compare with.
pub(super) fn verdict(comparison: &Comparison, measured: &Measured) -> Option<Verdict> {
    let ours = measured.of(OURS)?;
    let p50 = |figures: &Figures| figures.latency.map(|latency| latency.p50);
    let mut verdict = match measured.case.goal? {
        Goal::TimesFloor(most) => at_most(p50(ours)? / p50(measured.of(FLOOR)?)?, most, " x floor"),
        Goal::TimesCurator(least) => {
            let ratio = ours.rate? / measured.of(CURATOR)?.rate?;
            Verdict {
                goal: format!(">= {least} x Curator"),
                reached: format!("{ratio:.2} x Curator"),
                is_met: ratio >= least,
            }
        }
        Goal::Nanoseconds(most) => at_most(p50(ours)?, most, " ns"),
        Goal::Bytes(most) => at_most(ours.bytes_per_waiter?, most, " bytes"),
        Goal::TimesShortestQueue(most) => {
            let shortest = comparison.shortest_queue(measured.servers)?.of(OURS)?;
            at_most(p50(ours)? / p50(shortest)?, most, " x the shortest queue")
        }
    };
    if let (Some(most), Some(cost)) = (measured.case.most_requests, ours.cost) {
        verdict.goal += &format!(", {most} requests");
        verdict.reached += &format!(", {:.2} requests", cost.requests);
        // Pings come in between.
        verdict.is_met &= cost.requests < most + 0.1;
    }
    Some(verdict)
}

fn at_most(reached: f64, most: f64, unit: &str) -> Verdict {
    let digits = if most < 100.0 { 2 } else { 0 };
    Verdict {
        goal: format!("<= {most}{unit}"),
        reached: format!("{reached:.digits$}{unit}"),
        is_met: reached <= most,
    }
}
