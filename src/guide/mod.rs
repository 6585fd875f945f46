//! A guide to locks that can be lost.
//!
//! A lock in one process is held until it is given back. A lock among processes is not: its holder may fall silent,
//! and then the others cannot wait for ever. So every distributed lock can be lost while somebody believes to hold it.
//! What differs is whether it tells, and when, and what it offers for the moments in which nobody can tell.
//!
//! # What a lock promises
//!
//! - **One holder at a time**, as long as ZooKeeper keeps its session: whoever is granted a lock is alone with it, in the
//!   order of arrival.
//! - **A guard turns to lost before the servers can give the lock to another client.** It does not wait for a message that
//!   says so, since that comes late or never: it goes by the monotonic clock, and by when the servers were last known to
//!   keep the session.
//! - **The first look after a pause tells the truth.** A process that was stopped for longer than its session finds
//!   [`is_valid`](crate::LockGuard::is_valid) false when it looks, before it has heard anything.
//! - **Lost is final.** A guard never turns back to held, a re-entrant acquire on it fails, and
//!   [`release`](crate::LockGuard::release) says [`LockLost`](crate::Error::LockLost).
//!
//! # What it cannot promise
//!
//! Between the look at the lock and the effect of what one does there is time. A process may be stopped right in between;
//! a write may be on its way through the network for longer than the session lives. No lock service can prevent that,
//! since it does not see the write. Two things can, and they are [the cures](#the-two-cures) below.
//!
//! Nor does the clock help where it is not kept: it must run at about the same speed as those of the servers, and go on
//! while the process is stopped. Where a whole machine is suspended, its monotonic clock may stand still. And an operator
//! who deletes the node of a holder gives the lock to the next at once: the holder hears it as the first, but not before.
//!
//! # Held, suspect, lost
//!
#![doc = include_str!("timeline.svg")]
//!
//! The servers let a session expire when they have not heard of it for its timeout. The client cannot know when they heard
//! of it last; but of a request that was answered it knows when it was sent, and they cannot have heard it before. From
//! then on the session is valid for its timeout less a margin, a third of the timeout by default. Requests that are made
//! anyway count as such signs of life. While somebody holds a lock and nothing else is sent, a `sync` is sent each seventh
//! of the timeout; it takes the place of the pings.
//!
//! | [`LockState`](crate::LockState) | when | what to do |
//! |---|---|---|
//! | `Held` | the servers answer | work |
//! | `Suspect` | there is no connection, or no answer for a third of the timeout | mostly it passes; start nothing that cannot be stopped |
//! | `Lost` | no answer for two thirds of the timeout; or the session has ended, the node is gone, the hold is over, the client closed | stop |
//!
//! [`SuspectPolicy::GiveUp`](crate::SuspectPolicy::GiveUp) is for those who would rather lose the lock than work in doubt.
//!
//! The margin covers what the clock does not see. A follower tells the leader with delay which sessions it has heard of;
//! clocks differ; the process needs a moment to hear of the loss. Only answers count in which the leader of the servers has
//! a part, which are those to writes and to `sync`: a follower that is cut off from its leader goes on answering reads and
//! pings, while the leader lets the session expire.
//!
//! Measured by `cargo test --test loss` on a machine with 2 cores, from the loss to the moment at which another had the
//! lock; the smallest distance of eleven runs, some of them beside other work, and the median of the last one:
//!
//! | the holder | rounds in a run | session | smallest | median | overlaps | by Curator's rule |
//! |---|---|---|---|---|---|---|
//! | in a black hole, both ways | 120 | 2 s | 647 ms | 720 ms | 0 | 120 overlaps, of 0.8 s |
//! | in a black hole, to the server | 40 | 2 s | 678 ms | 737 ms | 0 | 40 overlaps, of 0.8 s |
//! | stopped for longer than its session | 125 | 2 s | 675 ms | 709 ms | 0 | all would go on |
//! | at a follower that the leader does not hear | 40 | 1.5 s | 371 ms | 595 ms | 0 | 40 overlaps, of 1.4 s, if reads counted |
//!
//! Curator's rule is a session timeout from the moment at which the connection is noticed to be gone.
//!
//! # Working under a lock
//!
//! [`run`](crate::LockGuard::run) is the short way: the work goes on for as long as the lock is held, and is dropped at the
//! loss.
//!
//! ```no_run
//! use zk_recipes::{Error, InterProcessMutex};
//!
//! # async fn load() -> u32 { 0 }
//! # async fn store(_: u32, _token: i64) {}
//! # async fn example(mutex: InterProcessMutex) -> zk_recipes::Result<()> {
//! let guard = mutex.acquire().await?;
//! let token = guard.fencing_token();
//! let done = guard
//!     .run(async {
//!         let stock = load().await;
//!         store(stock - 1, token).await;
//!     })
//!     .await;
//! match done {
//!     Ok(()) => guard.release().await?,
//!     Err(Error::LockLost { reason, .. }) => println!("stopped half way: {reason}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - Work is dropped where it awaits. Let it await often, and keep long computations off the runtime's threads: the signs
//!   of life are sent from there, and the loss is noticed there.
//! - What it has begun and must not stay half done belongs into a value whose drop undoes it, or into one transaction.
//! - Tasks that it has spawned are not stopped with it. Keep them in a `JoinSet`, which is dropped with the work.
//! - `Ok` means that the lock was held when the work was done. `Err` may come when all was done, too: in the last moment
//!   nobody can tell.
//! - What takes a known time is best compared with [`valid_until`](crate::LockGuard::valid_until) before it is begun.
//!
//! # The two cures
//!
//! **The token**, for what the lock protects outside of ZooKeeper. Each grant has a number that is greater than those
//! before, [`fencing_token`](crate::LockGuard::fencing_token). Send it along with each write, and have the store refuse what
//! is older than the newest that it has seen, in the very statement that writes:
//!
//! ```sql
//! UPDATE accounts SET balance = :balance, token = :token WHERE id = :id AND token <= :token
//! ```
//!
//! It is a 64-bit number. The example `fencing` of this crate plays it through, with a holder that is stopped and goes on
//! too late. Readers share a lock, as do holders of permits: there a smaller token is not a lost one.
//!
//! **The transaction**, for what is in ZooKeeper itself. [`transaction`](crate::LockGuard::transaction) writes only if the
//! node by which the lock is held still exists; the servers look in the same step in which they write.
//!
//! # Choosing the session timeout
//!
//! It is for how long a lock stays taken when its holder dies without a word, and two thirds of it are for how long a
//! holder can do without its servers.
//!
//! - **Longer than the pauses that you expect**, by half at least: garbage collections of the servers, elections among them
//!   (some seconds), a machine that is busy, a virtual one that moves.
//! - **At least five ticks of the servers**, 10 s with their default `tickTime` of 2 s: they count in ticks, and tell each
//!   other twice in each.
//! - **No longer than others can wait** for what a dead holder has left.
//! - 10 s to 30 s fit most. The servers grant what they are asked for within `minSessionTimeout` and `maxSessionTimeout`.
//!
//! An idle client costs the servers one small request at a time, however much it holds. Measured by the same test with
//! sessions of 2 s, and for 15 s:
//!
//! | locks held | pings a second, 2 s | requests a second, 2 s | pings a second, 15 s | requests a second, 15 s |
//! |---|---|---|---|---|
//! | 0 | 2.5 | 0 | 0.33 | 0 |
//! | 1 | 0 | 3.5 | 0 | 0.47 |
//! | 1,000 | 0 | 3.5 | 0 | 0.47 |
//!
//! A lock that is held for longer than a second has its node watched, which is one request once.
//!
//! # Leaders
//!
//! Of processes of which one leads: the [next chapter](leaders).
//!
//! Sources: "How to do distributed locking" (Martin Kleppmann) on tokens; the Chubby paper (Burrows, 2006) on jeopardy and
//! sequencers; Curator's Tech Notes 10, 12 and 14 on what its states do not tell.

#[doc = include_str!("leaders.md")]
pub mod leaders {}
