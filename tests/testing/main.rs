//! The `testing` feature itself.

#[path = "../support/mod.rs"]
mod support;

mod fault_proxy;
mod servers;
