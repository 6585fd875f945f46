//! The client: its connections, its calls and what they are allowed.

#[path = "../support/mod.rs"]
mod support;

mod client;
mod connections;
mod debug;
mod ensembles;
mod forgotten;
mod replaced;
mod requests;
mod rights;
mod told;
