//! The files of the library that are checked, as they are.

// As a test, it gets their unit tests' helpers, though not the tests.
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../../src/queue/pure/mod.rs"]
mod pure;

pub(crate) use self::pure::*;
