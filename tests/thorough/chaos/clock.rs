//! The clock that all processes share.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock. On Linux it is also that of Java's `System.nanoTime` and of Python's
/// `time.monotonic_ns`, which the stage checks.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
