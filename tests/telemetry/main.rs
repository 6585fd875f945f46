//! Metrics, spans and warnings.

#[path = "../support/mod.rs"]
mod support;

mod metered;
mod recipes;
mod traced;
