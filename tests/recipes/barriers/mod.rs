//! Barriers.

mod barrier;
mod double_barrier;
