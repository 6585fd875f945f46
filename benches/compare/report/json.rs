//! The file for programs. Times are in nanoseconds, CPU times of a cycle in microseconds.

use serde_json::{Value, json};

use super::verdict::verdict;
use super::{Comparison, Measured, NOTES};
use crate::Result;
use crate::summary::Figures;

pub(super) fn text(comparison: &Comparison) -> Result<String> {
    let versions: serde_json::Map<_, _> =
        comparison.versions.iter().map(|(of, version)| (of.clone(), json!(version))).collect();
    let cases: Vec<_> = comparison.measured.iter().map(|measured| case(comparison, measured)).collect();
    let all = json!({ "quick": comparison.quick, "versions": versions, "notes": NOTES, "cases": cases });
    Ok(serde_json::to_string_pretty(&all)?)
}

fn case(comparison: &Comparison, measured: &Measured) -> Value {
    let verdict = verdict(comparison, measured);
    json!({
        "name": measured.case.name,
        "title": measured.case.title,
        "servers": measured.servers,
        "load": measured.case.load.to_string(),
        "goal": verdict.as_ref().map(|verdict| &verdict.goal),
        "reached": verdict.as_ref().map(|verdict| &verdict.reached),
        "met": verdict.as_ref().map(|verdict| verdict.is_met),
        "participants": measured.figures.iter().map(participant).collect::<Vec<_>>(),
    })
}

fn participant(figures: &Figures) -> Value {
    json!({
        "name": figures.participant,
        "samples": figures.latency.map(|latency| latency.samples),
        "p50_ns": figures.latency.map(|latency| latency.p50),
        "p99_ns": figures.latency.map(|latency| latency.p99),
        "cycles_per_second": figures.rate,
        "requests_per_cycle": figures.cost.map(|cost| cost.requests),
        "replies_per_cycle": figures.cost.map(|cost| cost.replies),
        "bytes_to_server_per_cycle": figures.traffic.map(|traffic| traffic.to_server),
        "bytes_to_client_per_cycle": figures.traffic.map(|traffic| traffic.to_client),
        "client_cpu_us_per_cycle": figures.cost.map(|cost| cost.client),
        "server_cpu_us_per_cycle": figures.cost.map(|cost| cost.server),
        "fewest_and_most_grants": figures.spread,
        "bytes_per_waiter": figures.bytes_per_waiter,
    })
}
