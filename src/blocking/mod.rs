//! The recipes for threads, without `async`.
//!
//! For programs, or parts of them, that have no runtime. Each type here is the blocking twin of the async type of
//! the same name: it has the same methods, which block the calling thread until they are done. Options, errors,
//! participants and owners are the same types. So is the [`ClientBuilder`](crate::ClientBuilder), whose last step
//! is [`connect_blocking`](crate::ClientBuilder::connect_blocking). Needs the feature `blocking`.
//!
//! ```no_run
//! use std::thread;
//! use std::time::Duration;
//! use zk_recipes::blocking::{Client, InterProcessMutex};
//!
//! # fn main() -> zk_recipes::Result<()> {
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181")?;
//! let mutex = InterProcessMutex::new(&client, "/locks/orders")?;
//! thread::scope(|scope| {
//!     scope.spawn(|| match mutex.try_acquire_for(Duration::from_secs(5)) {
//!         Ok(Some(_guard)) => println!("held until the end of this block"),
//!         Ok(None) => println!("not acquired within 5 seconds"),
//!         Err(error) => println!("{}", zk_recipes::report(&error)),
//!     });
//! });
//! client.close()
//! # }
//! ```
//!
//! # Re-entrance
//!
//! The owner is the thread, as in Curator: the thread that holds a mutex can acquire it again, and other threads
//! of the same process wait, even through the same object. In `spawn_blocking` the owner is the task of that
//! closure, and in `block_in_place` the task around it; see [`Owner::current`](crate::Owner::current). You can
//! move a guard to any thread and release it there. For work that moves with the guard, use an explicit
//! [`Owner`](crate::Owner).
//!
//! # Cost
//!
//! Each waiting caller occupies a thread, with its stack. Beyond that, all clients share two threads. To wait for
//! hundreds of locks at once, use tasks.
//!
//! An acquire and a release take as long as in async code. A call that makes no request, such as a re-entrant
//! acquire, takes longer on a thread within the context of a tokio runtime, as in `spawn_blocking`: it first checks
//! whether that thread runs tasks. The repository's `BENCHMARKS.md` has the figures.
//!
//! # In async programs
//!
//! A thread on which a tokio runtime runs tasks must not be blocked. In a task or in the future of `block_on`,
//! every call that would block fails immediately with [`Error::WithinRuntime`](crate::Error::WithinRuntime), even
//! in a `Drop`. There, await the method of the async type, or make the call within `tokio::task::spawn_blocking`.
//!
//! Blocking is allowed in `spawn_blocking` and `block_in_place`, on any thread of your own, and on a thread
//! between two calls of `block_on`, even while a `Runtime::enter` guard exists. Inside
//! `tokio::task::unconstrained`, and under executors other than tokio's, the check cannot detect a task, and the
//! call blocks.
//!
//! You can use both kinds on one client: each type converts [`From`] its async twin, and `as_async` borrows that
//! twin. Use this for what has no blocking twin: [`Client::zookeeper`](crate::Client::zookeeper), whose own calls
//! are async, [`Client::from_zookeeper`](crate::Client::from_zookeeper), [`InterProcessLock`](crate::InterProcessLock)
//! and [scheduled jobs](crate::job).
//!
//! ```no_run
//! # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
//! use zk_recipes::blocking;
//!
//! let client = blocking::Client::from(client);
//! let mutex = blocking::InterProcessMutex::new(&client, "/locks/orders")?;
//! let worker = mutex.clone();
//! tokio::task::spawn_blocking(move || worker.acquire()?.release());
//! // The same lock object, in async code:
//! mutex.as_async().acquire().await?.release().await
//! # }
//! ```
//!
//! A client that lives on a [runtime of yours](crate::ClientBuilder::runtime) needs that runtime to be running: a
//! current-thread runtime runs only while a thread is inside its `block_on`.
//!
//! # When a lock is lost
//!
//! Work on a thread cannot be stopped from outside. Check between its steps with [`LockGuard::is_valid`] or
//! [`Leadership::is_valid`]: both use the clock and make no request. To be notified immediately, have another
//! thread wait in [`LockGuard::lost`]. Protect what is written under a lock as in async code: with the [fencing
//! token](LockGuard::fencing_token) or with a [transaction](LockGuard::transaction).
//!
//! # Ending
//!
//! Returning from `main` drops the values of `main`. The drop of the last handle of a client waits until the
//! servers have ended its session, so a guard in `main` leaves no lock behind. Other threads, however, are killed
//! when `main` returns, and drop nothing; as long as they have handles of the client, the drop in `main` is not
//! the last one. So call [`Client::close`] first: it releases everything, and wakes all waiting threads with
//! [`Error::Closed`](crate::Error::Closed). Or join the threads.
//!
//! On a signal, let those finish who are at work under a lock before you close the client; the thread of a handler, such as
//! that of the crate `ctrlc`, may do both. `examples/blocking.rs` is a whole program.
//!
//! ```no_run
//! use std::sync::RwLock;
//! use zk_recipes::blocking::{Client, InterProcessMutex};
//! use zk_recipes::{Error, Result};
//!
//! # fn ship_next_order(_token: i64) {}
//! fn work(mutex: &InterProcessMutex, ends: &RwLock<bool>) -> Result<()> {
//!     loop {
//!         let guard = match mutex.acquire() {
//!             Err(Error::Closed) => return Ok(()),
//!             guard => guard?,
//!         };
//!         // Kept until the lock is released.
//!         let ends = ends.read().unwrap();
//!         if *ends {
//!             return Ok(());
//!         }
//!         ship_next_order(guard.fencing_token());
//!         guard.release()?;
//!     }
//! }
//!
//! fn end(client: &Client, ends: &RwLock<bool>) -> Result<()> {
//!     // Waits until no thread is at work.
//!     *ends.write().unwrap() = true;
//!     // Tells those who wait for a lock.
//!     client.close()
//! }
//! ```

#[macro_use]
mod twin;

pub mod atomic;
pub mod barriers;
pub mod cache;
mod client;
#[cfg(feature = "discovery")]
pub mod discovery;
mod guard;
mod latch;
mod leadership;
mod locks;
mod multi;
mod mutex;
pub mod nodes;
mod observer;
pub mod operate;
mod quorum;
mod read_write;
mod selector;
mod semaphore;
mod semaphore_mutex;
pub mod shared;
mod ticket;
mod transaction;
mod wait;
mod watch;

pub use self::client::Client;
pub use self::guard::LockGuard;
pub use self::latch::LeaderLatch;
pub use self::leadership::Leadership;
pub use self::locks::Locks;
pub use self::multi::MultiLock;
pub use self::mutex::InterProcessMutex;
pub use self::observer::LeaderObserver;
pub use self::quorum::{QuorumGuard, QuorumLock};
pub use self::read_write::{ReadLock, ReadWriteLock, WriteLock};
pub use self::selector::LeaderSelector;
pub use self::semaphore::Semaphore;
pub use self::semaphore_mutex::SemaphoreMutex;
pub use self::ticket::Ticket;
pub use self::transaction::Transaction;
