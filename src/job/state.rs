//! The state of a job in this process.

use super::agreement::ClockDifference;
use super::record::JobRecord;
use crate::leader::{LeaderHealth, LeaderRole};
use crate::watch::Watched;

/// The state of a job in this process. Watch it with [`ScheduledJob::watch_state`](super::ScheduledJob::watch_state).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// This process does not lead: another one runs the job, or none.
    Standby,
    /// This process leads, and waits for [`next_run`](JobRecord::next_run), or for
    /// [`at_least_for`](super::JobOptions::at_least_for) to pass.
    Waiting(JobRecord),
    /// This process runs the job: the [last run](JobRecord::last_run) of the record.
    Running(JobRecord),
    /// This process does not run the job, since its clock differs from that of the servers by more than the
    /// [tolerance](super::JobOptions::clock_tolerance). It gave the leadership up when it found that, and stands for
    /// election again after a pause of at most 5 s. The state stays until it leads again with a clock that is right.
    WrongClock(ClockDifference),
}

/// What this process does about a job at the moment, for probes. From
/// [`ScheduledJob::health`](super::ScheduledJob::health).
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq)]
pub struct JobHealth {
    /// The role of this process in the election of the one that runs the job.
    pub leader: LeaderHealth,
    /// The state of the job in this process, with the last and the next run if it leads. A probe should report
    /// [`JobState::WrongClock`].
    pub state: JobState,
}

debug_by!(JobHealth, |it| role: it.leader.role, state: it.state);

/// Shows that this process does not lead any more, when it is dropped.
pub(super) struct OnDuty<'a>(pub(super) &'a Watched<JobState>);

impl JobHealth {
    /// The term of a leader ends at a certain time, which the job may not have noticed yet.
    pub(super) fn new(leader: LeaderHealth, shown: JobState) -> Self {
        let leads = matches!(leader.role, LeaderRole::Leader | LeaderRole::Resigning);
        let lasts = leads || matches!(shown, JobState::WrongClock(_));
        Self { leader, state: if lasts { shown } else { JobState::Standby } }
    }
}

impl Drop for OnDuty<'_> {
    fn drop(&mut self) {
        self.0.show_if(|shown| match shown {
            // That stays until the clock is known to be right.
            JobState::WrongClock(_) => None,
            shown => Some((*shown != JobState::Standby, JobState::Standby)),
        });
    }
}
