//! A clock that stands still until it is moved.

use std::time::{Duration, SystemTime};

use tokio::sync::watch;

/// A clock for [scheduled jobs](crate::job::JobOptions::clock) that stands still until the test moves it. Clones show
/// the same time.
///
/// ```no_run
/// use std::time::{Duration, SystemTime};
/// use zk_recipes::job::{JobOptions, JobState, ScheduledJob};
/// use zk_recipes::testing::ManualClock;
///
/// # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
/// let clock = ManualClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(90));
/// let options = JobOptions::new().clock(&clock);
/// let hour = Duration::from_secs(3600);
/// let job = ScheduledJob::every(&client, "/jobs/report", hour, options, |run| async move {
///     println!("run {}", run.number());
///     Ok::<(), std::io::Error>(())
/// })?;
/// let mut state = job.watch_state();
/// let _ = state.wait_for(|state| matches!(state, JobState::Waiting(_))).await;
/// clock.advance(hour); // the job runs now
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ManualClock(watch::Sender<SystemTime>);

debug_by!(ManualClock, |it| now: it.now());

impl ManualClock {
    /// Creates a clock that shows this time.
    pub fn new(now: SystemTime) -> Self {
        Self(watch::Sender::new(now))
    }

    /// Returns the time that the clock shows.
    pub fn now(&self) -> SystemTime {
        *self.0.borrow()
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now += by);
    }

    /// Sets the clock, also back.
    pub fn set(&self, now: SystemTime) {
        self.0.send_replace(now);
    }

    /// Waits until the clock shows another time than this.
    pub(crate) async fn moved_from(&self, time: SystemTime) {
        // The sender is ours.
        let _ = self.0.subscribe().wait_for(|now| *now != time).await;
    }
}
