//! Jobs that run once per period, in whichever process of a fleet.
//!
//! Start a [`ScheduledJob`] in every process. One of them leads, and runs the job at each time of its schedule; when it
//! ends or fails, the next one goes on. A record in ZooKeeper says which run was begun last and what became of it, and
//! it can be written by the leader only.
//!
//! # What "once" means
//!
//! A run is recorded before its work begins, and again when it has ended. The servers accept both records only while
//! the leader leads. So:
//!
//! - **Each run is begun at most once**, unless you ask for [repetition](UnfinishedRun::Repeat): no second process
//!   begins a run that is recorded, whatever happens to the first one.
//! - A process that dies, or loses its leadership, in the middle of a run leaves it behind as
//!   [unfinished](RunOutcome::Unfinished), for all to see. No one can tell how far its work has come. By
//!   [default](UnfinishedRun::Skip) it is not begun again.
//! - With [`UnfinishedRun::Repeat`], such a run is begun again by the next leader: **at least once**, up to the bound
//!   that you give. The work may even have been completed, if the process died before it could record that. So the work
//!   must do no harm when it is done twice.
//! - A run whose work returns an error or panics has ended. It is recorded as [failed](RunOutcome::Failed), and not
//!   repeated.
//!
//! Exactly once is possible only in the store that the work writes to: have it check the [fencing
//! token](JobRun::fencing_token), or use [`scheduled_at`](JobRun::scheduled_at) as a key there. If the result of the work
//! is in ZooKeeper, write it by [`Leadership::transaction`](crate::Leadership::transaction).
//!
//! # Clocks
//!
//! A run is identified by its time in the schedule, so processes with different clocks do not run it twice. It begins
//! by the clock of the leader. When another process becomes the leader, the time between two consecutive runs can be
//! shorter than in the schedule, by the difference of the two clocks. [`JobOptions::at_least_for`] sets a minimum, by
//! the clock of the servers.
//!
//! A leader whose clock is wrong would run nothing, or put the job into the future for all. So **a leader whose clock
//! differs from that of the servers by more than a [tolerance](JobOptions::clock_tolerance) does not run the job**: it
//! shows [`JobState::WrongClock`], resigns in favour of the other processes, and stands again after a pause. The servers
//! show their time at each write of the record: at the beginning of a term, before and after each run, and when the
//! clock seems to have been set meanwhile. If no process runs the job, [`ScheduledJob::health`] of each says why.
//!
//! A record that is from the future nevertheless, by more than the tolerance and a minute, is mended by the next leader
//! that runs the job, with a warning: the job goes on with the next run that is due. What a wrong clock has run ahead of time, runs again
//! when it is due, under another number.
//!
//! # The record
//!
//! It is the data of the node `record` below the path of the job, as lines of text. Each is a name, a space, and a value.
//! Times are milliseconds since 1970.
//!
//! ```text
//! zk-recipes job 1                the format
//! schedule every 60s
//! since 1795442390201             when the job was started for the first time
//! next 1795442460000              when it is due next
//! unfinished 0                    how many runs were left unfinished, and not repeated
//! leader 8589934598               the fencing token of the process that wrote this
//! run 17                          the last run: its number, from 1,
//! scheduled 1795442400000         when it was due,
//! attempt 1                       how often it was begun,
//! token 8589934598                by whom,
//! outcome done                    unfinished, done or failed,
//! begun 1795442400012             when it began by the clock of the servers; missing while that is the time of the node,
//! took 1234                       and how many milliseconds it took
//! ```
//!
//! Delete the node while no process leads, to have the job start anew, as if it had never run. The election is below `leader`; a
//! [`LeaderObserver`](crate::LeaderObserver) of that path shows who leads.

mod agreement;
mod book;
mod clock;
mod options;
mod plan;
mod record;
mod run;
mod schedule;
mod scheduled_job;
mod scheduler;
mod state;

pub use self::agreement::ClockDifference;
pub use self::options::{JobOptions, MissedRuns, UnfinishedRun};
pub use self::record::{JobRecord, RunOutcome, RunRecord};
pub use self::run::JobRun;
pub use self::scheduled_job::ScheduledJob;
pub use self::state::{JobHealth, JobState};
