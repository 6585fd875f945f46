//! Leader election.

mod candidate;
mod eligibility;
mod health;
mod latch;
mod leadership;
mod methods;
mod observer;
mod options;
mod selector;
mod state;
#[cfg(feature = "blocking")]
mod threads;

pub use self::health::{LeaderHealth, LeaderRole};
pub use self::latch::{CloseMode, LeaderLatch};
pub use self::leadership::Leadership;
pub use self::observer::{LeaderObserver, Observation};
pub use self::options::LeaderOptions;
pub use self::selector::LeaderSelector;
pub use self::state::LeaderState;
