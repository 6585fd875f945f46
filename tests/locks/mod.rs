//! The locks: each kind, and what is done with them.

#[path = "../support/every_kind.rs"]
#[allow(unreachable_pub, reason = "others use it, too")]
mod every_kind;

mod blocking;
mod by_key;
mod cohort;
mod cohort_in_trouble;
mod combined;
mod cost;
mod deadlocks;
mod every_lock;
mod giving_up;
mod holding;
mod hostile;
mod kinds_at_one_path;
mod linger;
mod multi_lock;
mod mutex;
mod new_paths;
mod permits_at_once;
mod quorum;
mod quorum_in_trouble;
mod read_write;
mod real_servers;
mod release_together;
mod semaphore;
pub(crate) mod stage;
mod transactions;
