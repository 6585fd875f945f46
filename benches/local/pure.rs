//! The pure files of the queue, as they are: nothing of the library is public for the sake of a measurement.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "the rest is for the library and its tests")]

#[path = "../../src/queue/contender.rs"]
pub(crate) mod contender;
#[path = "../../src/queue/dates.rs"]
pub(crate) mod dates;
#[path = "../../src/queue/line.rs"]
pub(crate) mod line;
#[path = "../../src/queue/name.rs"]
pub(crate) mod name;
#[path = "../../src/queue/order.rs"]
pub(crate) mod order;
#[path = "../../src/queue/rule.rs"]
pub(crate) mod rule;
