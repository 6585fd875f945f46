//! A thousand at once. A program of their own, since they leave the machine little time for others.

#[path = "../support/mod.rs"]
mod support;

mod herds;
mod storms;
