//! For operators: asking a holder for its lock, and taking it away.
//!
//! These functions need the path of a lock, not its lock object, and work with locks of any kind, also those of
//! Curator. To list holders and waiters, call
//! [`InterProcessMutex::participants`](crate::InterProcessMutex::participants), or the same method of another lock. The
//! [guide](crate::guide::operations) has more.
//!
//! ```no_run
//! # async fn example(client: zk_recipes::Client) -> zk_recipes::Result<()> {
//! use zk_recipes::operate;
//!
//! for holder in operate::ask(&client, "/locks/orders").await? {
//!     println!("asked {holder:?}");
//! }
//! // The holder neither works nor ends.
//! for holder in operate::force_release(&client, "/locks/orders").await? {
//!     println!("taken from {holder:?}");
//! }
//! # Ok(())
//! # }
//! ```

pub use crate::lock::{ask, ask_participant, force_release, force_release_participant};
