//! The recipes for threads, without `async`.
//!
//! For programs, or parts of them, that have no runtime: each type here is the twin of the async one of the same name, with
//! the same methods, which block the calling thread until they are done. Options, errors, participants and owners are the
//! same types; so is the [`ClientBuilder`](crate::ClientBuilder), whose last step is
//! [`connect_blocking`](crate::ClientBuilder::connect_blocking). Needs the feature `blocking`.
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
//!         Err(error) => println!("{error}"),
//!     });
//! });
//! client.close()
//! # }
//! ```
//!
//! # Re-entrance
//!
//! The owner is the thread, as in Curator: the one that holds a mutex can acquire it again, and others of the same process
//! wait, also through the same object. In `spawn_blocking` the owner is the task of that closure, and in `block_in_place`
//! the task around it; see [`Owner::current`](crate::Owner::current). A guard can be moved to any thread, and released
//! there; for work that moves with it, give it an [`Owner`](crate::Owner).
//!
//! # What it costs
//!
//! A thread for each caller that waits, with its stack, and no other: all clients share two threads of their own. Use
//! tasks to wait for hundreds of locks at once.
//!
//! An acquire and a release take as long as in async code: 210 us, the median on one server with 2 cores, with no
//! difference beyond what changes from run to run. A call that makes no request, as a re-entrant acquire, takes 0.3 us; 2 us
//! where the thread is within the context of a tokio runtime, as in `spawn_blocking`.
//!
//! # In async programs
//!
//! A thread on which a tokio runtime runs tasks must not be blocked. There, in a task or in the future of `block_on`, all
//! that would block fails with [`Error::WithinRuntime`](crate::Error::WithinRuntime), at once, also in a `Drop`: await the
//! method of the async type, or call this one within `tokio::task::spawn_blocking`. It is allowed there and in
//! `block_in_place`, on any thread of your own, and on one between two `block_on`, also while a `Runtime::enter` lasts. In
//! `tokio::task::unconstrained` it cannot be told, and blocks; neither can it be under other executors than tokio's.
//!
//! Both kinds can be used on one client: each type is made [`From`] its twin, and `as_async` borrows it. Use that for
//! what has no twin: [`Client::zookeeper`](crate::Client::zookeeper), whose own calls are async,
//! [`Client::from_zookeeper`](crate::Client::from_zookeeper), and [`InterProcessLock`](crate::InterProcessLock).
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
//! A client that lives on a [runtime that was given](crate::ClientBuilder::runtime) needs that to run meanwhile: a
//! current-thread runtime does only while somebody is in its `block_on`.
//!
//! # When a lock is lost
//!
//! Work on a thread cannot be stopped from outside. So look between its steps, by [`LockGuard::is_valid`] or
//! [`Leadership::is_valid`]: both go by the clock, and make no request. Have another thread wait in
//! [`LockGuard::lost`] to hear of it at once. What is written under a lock is to be protected as in async code: by the
//! [fencing token](LockGuard::fencing_token), or by a [transaction](LockGuard::transaction).
//!
//! # Ending
//!
//! Returning from `main` drops what `main` has, and the last handle of a client waits until the servers have ended its
//! session, so that a guard there leaves no lock behind. But threads that go on when `main` returns are ended as they stand,
//! and drop nothing; as long as they have handles of the client, the drop in `main` is not the last one. So call
//! [`Client::close`] first: it frees everything, and wakes all threads that wait, with
//! [`Error::Closed`](crate::Error::Closed). Or join them.

mod candidate;
mod client;
mod guard;
mod latch;
mod leadership;
mod locks;
mod methods;
mod multi;
mod mutex;
mod observer;
mod read_write;
mod revoke;
mod selector;
mod semaphore;
mod semaphore_mutex;
mod shared_count;
mod ticket;
mod transaction;
mod twin;
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
pub use self::read_write::{ReadLock, ReadWriteLock, WriteLock};
pub use self::revoke::{Revoker, force_release, force_release_participant};
pub use self::selector::LeaderSelector;
pub use self::semaphore::Semaphore;
pub use self::semaphore_mutex::SemaphoreMutex;
pub use self::shared_count::SharedCount;
pub use self::ticket::Ticket;
pub use self::transaction::Transaction;
pub use self::watch::Watch;
