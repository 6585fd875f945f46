//! The `testing` feature itself.

mod fault_proxy;
mod servers;
