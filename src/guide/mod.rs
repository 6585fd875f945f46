//! A guide to locks that can be lost.
//!
//! A lock in one process is held until it is given back. A lock among processes is not: its holder may fall silent,
//! and then the others cannot wait for ever. So every distributed lock can be lost while somebody believes to hold it.
//! What differs is whether it tells, and when, and what it offers for the moments in which nobody can tell.
//!
//! # What a lock promises
//!
//! - **One holder at a time**, as long as ZooKeeper keeps its session: the holder of a lock is alone with it, in the
//!   order of arrival.
//! - **A guard turns to lost before the servers can give the lock to another client.** It does not wait for a message that
//!   says so, since that comes late or never: it goes by the clock, and by when a majority of the servers was last known
//!   to keep the session.
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
//! while the process is stopped. It also goes on while the machine is suspended, on Linux, Android, macOS and Windows: the
//! first look after that tells the truth, and [`lost`](crate::LockGuard::lost) and `run` hear of the loss within a seventh
//! of the session timeout. A virtual machine that is paused or migrated may have all its clocks stopped, and then no look
//! can tell: only tokens and guarded transactions protect. And an operator who deletes the node of a holder gives the lock to the next at once: the holder hears it as the first, but not before.
//!
//! # Held, suspect, lost
//!
#![doc = include_str!("timeline.svg")]
//!
//! The servers let a session expire when they have not heard of it for its timeout. The client cannot know when they heard
//! of it last; but of a request that was answered it knows when it was sent, and they cannot have heard it before. From
//! then on the session is valid for its timeout less a margin, a third of the timeout by default. Only what a majority of
//! the servers has committed counts as such a sign of life, which is every write. While a client holds a lock and writes
//! nothing, it sends a transaction that only checks a version, each seventh of the timeout; while it holds none, a read.
//! Both take the place of pings.
//!
//! | [`LockState`](crate::LockState) | when | what to do |
//! |---|---|---|
//! | `Held` | the servers answer | work |
//! | `Suspect` | there is no connection, or no answer for a third of the timeout | mostly it passes; start nothing that cannot be stopped |
//! | `Lost` | no answer for two thirds of the timeout; or the session has ended, the node is gone, the hold is over, the client closed | stop |
//!
//! [`SuspectPolicy::GiveUp`](crate::SuspectPolicy::GiveUp) is for those who would rather lose the lock than work in doubt.
//!
//! A follower that is cut off from its leader goes on answering reads and pings, while the leader lets the session expire;
//! and a leader that is cut off goes on answering `sync`, while the others elect a new one. Neither can commit.
//! [`KeepAlive::Leader`](crate::KeepAlive::Leader) lets `sync` count all the same, for ensembles that cannot bear the
//! commits: each is logged as a write. 10,000 clients that hold locks on sessions of 30 s send 2,333 a second. Measured by
//! `cargo bench --bench keep_alive` on a machine with 2 cores, on one server and on three: they take a quarter of a core
//! and 0.86 of a core in all, where `sync` takes 0.21 and 0.39; such servers commit at most 57,000 and 31,000 a second.
//!
//! A follower tells the leader only each half tick which sessions it has heard of. So an answer counts in full only if
//! something was heard half a tick earlier, and that is taken to be a quarter of the timeout: after a silence the session
//! is valid from what was heard before the silence on, until a second answer comes. The margin covers what is left:
//! clocks that run at different speeds, servers that are late with their reports, and the moment that the process needs to
//! hear of the loss. With the default margin that is a 21st of the timeout for sessions of two ticks, and almost a
//! fifth for those of five ticks and more.
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
//! - Work is dropped where it awaits. Let it await often: work that computes or blocks for long keeps the lock, whose session
//!   lives on threads of its own, but goes on when the lock is lost.
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
//! Do not lower `maxSessionTimeout` of the servers below what clients have been granted while these are connected. A client
//! counts by the shorter timeout from the moment at which a server tells it. If that answer is lost, a holder may believe
//! for a while that it has its lock when its session has expired.
//!
//! What is said above takes sessions of two ticks at least, which is the least that servers grant by default.
//!
//! An idle client costs the servers one small request at a time, however much it holds. Measured by the same test with
//! sessions of 2 s, and for 15 s:
//!
//! | locks held | reads a second, 2 s | commits a second, 2 s | reads a second, 15 s | commits a second, 15 s |
//! |---|---|---|---|---|
//! | 0 | 3.5 | 0 | 0.47 | 0 |
//! | 1 | 0 | 3.5 | 0 | 0.47 |
//! | 1,000 | 0 | 3.5 | 0 | 0.47 |
//!
//! A lock that is held for longer than a second has its node watched, which is one request once.
//!
//! # Security
//!
//! **Encrypt.** With the feature `tls`, [`ClientBuilder::tls`](crate::ClientBuilder) takes the CA that signs the servers'
//! certificates and, where the servers ask for one, the client's own certificate. A server with a wrong CA, host name or
//! date is refused before anything is sent to it. Why a handshake failed is in the traces of `zookeeper_client` at level
//! `debug`.
//!
//! **Authenticate, and restrict the nodes.** [`auth`](crate::ClientBuilder::auth) and `sasl` say who the client is;
//! [`creator_only`](crate::ClientBuilder::creator_only) reserves its nodes for clients that are authenticated the same
//! way. All participants of a lock need the same identity then, Curator's included, with `CREATOR_ALL_ACL`. Without an
//! ACL everyone who reaches the servers can delete a holder's node. No password is traced or printed at any level, by this
//! library or by `zookeeper-client`.
//!
//! **Participants are trusted to queue.** A user who may create nodes at the path of a lock can keep everyone else waiting for
//! as long as they like: a node whose name sorts before all others holds the lock by the protocol. Nobody else can prevent
//! that, but nothing is granted twice by it, waiting for such a node costs no requests, and the queue goes on when its
//! session ends.
//!
//! Two more costs can be caused by users who may create or write there. A change of the node that a waiter waits for makes
//! the waiter list the queue again, so each write of theirs causes at most three requests; one that asks a holder to give
//! the lock back, at most nine, since the holder reads it and writes its own data again. A node named with the number
//! 2147483647 makes each client that waits there ask once for the creation date of each contender, one request for each.
//! Let only those create nodes in a path that you would let hold the lock.
//!
//! **Choose how long calls try.** Without servers, a call fails under the client's [`RetryPolicy`](crate::RetryPolicy); its
//! documentation has the rule for all of them. A release does not outlast the lock, and who waits in a queue waits on.
//!
//! # Ending a program
//!
//! When the last handle of a client is dropped, and everything made from it, the session ends, and with it all that it
//! held. That drop waits for the servers, up to [`drop_timeout`](crate::ClientBuilder::drop_timeout); so it is enough to
//! leave `main`, by `return`, `?` or a panic. [`close`](crate::Client::close) does the same without blocking a thread, and
//! lets the work of leaders come to its end before.
//!
//! `std::process::exit`, `abort` and signals drop nothing: then others wait for the session timeout. Have `main` wait for
//! the signal, and return:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use tokio::signal::unix::{SignalKind, signal};
//! use zk_recipes::{Client, InterProcessMutex};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let mut terminated = signal(SignalKind::terminate())?;
//!     // Also while it connects, and while it waits for the lock.
//!     tokio::select! {
//!         done = work() => done,
//!         _ = terminated.recv() => Ok(()),
//!         _ = tokio::signal::ctrl_c() => Ok(()),
//!     }
//!     // The lock is free when the process is gone.
//! }
//!
//! async fn work() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::connect(&std::env::var("ZK_CONNECT")?).await?;
//!     let guard = InterProcessMutex::new(&client, "/locks/orders")?.acquire().await?;
//!     guard.run(ship_orders(guard.fencing_token())).await?;
//!     guard.release().await?;
//!     Ok(())
//! }
//!
//! async fn ship_orders(token: i64) {
//!     for order in 1..=1_000 {
//!         println!("ships order {order}, with token {token}");
//!         tokio::time::sleep(Duration::from_secs(1)).await;
//!     }
//! }
//! ```
//!
//! A [`runtime`](crate::ClientBuilder::runtime) that was given for the client must live until then: a last handle that is
//! dropped within it does not wait.
//!
//! # Leaders
//!
//! Of processes of which one leads: the [next chapter](leaders).
//!
//! Sources: "How to do distributed locking" (Martin Kleppmann) on tokens; the Chubby paper (Burrows, 2006) on jeopardy and
//! sequencers; Curator's Tech Notes 10, 12 and 14 on what its states do not tell.

#[doc = include_str!("leaders.md")]
pub mod leaders {}
