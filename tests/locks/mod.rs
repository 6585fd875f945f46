//! The locks: each kind, and what is done with them.

#[path = "../support/every_kind.rs"]
#[allow(unreachable_pub, reason = "others use it, too")]
mod every_kind;

mod blocking;
mod by_key;
mod combined;
mod every_lock;
mod giving_up;
mod handed_on;
mod holding;
mod hostile;
mod multi_lock;
mod mutex;
mod new_paths;
mod quorum;
mod read_write;
mod real_servers;
mod semaphore;
pub(crate) mod stage;
mod transactions;
