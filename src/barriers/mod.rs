//! Barriers, at which processes wait for each other or for a sign.
//!
//! | you need | take |
//! |---|---|
//! | processes that wait until one opens the way | [`Barrier`] |
//! | a number of processes that begin together, and end together | [`DoubleBarrier`] |

mod barrier;
mod decision;
mod double_barrier;
mod entered;
mod entering;
mod leaving;
mod member;
mod opening;
mod round;
mod site;
mod tidying;

pub use self::barrier::Barrier;
pub use self::double_barrier::DoubleBarrier;
pub use self::entered::Entered;
