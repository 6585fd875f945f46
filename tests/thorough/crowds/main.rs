//! A thousand at once. A program of their own, since they leave the machine little time for others.

#[path = "../../support/mod.rs"]
mod support;

mod herds;
mod storms;

/// Held by the test that runs: two crowds at once would keep the machine from each other.
static MACHINE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
