//! The files of the library that are checked, as they are.

// As a test, it gets their unit tests' helpers, though not the tests.
#![allow(dead_code, unused_imports, unreachable_pub)]

#[path = "../../../src/queue/all_or_none.rs"]
pub(crate) mod all_or_none;
#[path = "../../../src/queue/contender.rs"]
pub(crate) mod contender;
#[path = "../../../src/queue/dates.rs"]
pub(crate) mod dates;
#[path = "../../../src/queue/line.rs"]
pub(crate) mod line;
#[path = "../../../src/queue/name.rs"]
pub(crate) mod name;
#[path = "../../../src/queue/order.rs"]
pub(crate) mod order;
#[path = "../../../src/queue/passing.rs"]
pub(crate) mod passing;
#[path = "../../../src/queue/permits.rs"]
pub(crate) mod permits;
#[path = "../../../src/queue/rule.rs"]
pub(crate) mod rule;
