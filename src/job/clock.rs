//! The clock by which a job is due.

use std::time::{Duration, SystemTime};

use tokio::time::sleep;

#[cfg(feature = "testing")]
use crate::testing::ManualClock;

/// How often the clock is looked at: it may be set, and timers stand still while the machine is suspended.
const LOOK: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default)]
pub(super) enum Clock {
    #[default]
    System,
    #[cfg(feature = "testing")]
    Manual(ManualClock),
}

impl Clock {
    pub(super) fn now(&self) -> SystemTime {
        match self {
            Self::System => SystemTime::now(),
            #[cfg(feature = "testing")]
            Self::Manual(clock) => clock.now(),
        }
    }

    pub(super) fn is_of_system(&self) -> bool {
        matches!(self, Self::System)
    }

    /// Waits until the clock shows this time, or until it is to be looked at again. It has just shown `now`.
    pub(super) async fn look_again(&self, now: SystemTime, time: Option<SystemTime>) {
        match self {
            Self::System => {
                let left = time.map_or(LOOK, |time| time.duration_since(now).unwrap_or_default());
                sleep(left.min(LOOK)).await;
            }
            #[cfg(feature = "testing")]
            Self::Manual(clock) => clock.moved_from(now).await,
        }
    }
}
