//! The client: its connections, its calls and what they are allowed.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod connections;
mod ensembles;
mod requests;
mod retry;
mod rights;
