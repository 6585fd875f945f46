//! The locks: each kind, and what is done with them.

#[path = "../support/mod.rs"]
mod support;

mod blocking;
mod by_key;
mod cancel;
mod every_lock;
mod giving_up;
mod holding;
mod linger;
mod losses;
mod multi_lock;
mod mutex;
mod new_paths;
mod permits_at_once;
mod read_write;
mod release_together;
mod semaphore;
mod transactions;
