//! What most tests are told with.

pub use std::sync::Arc;
pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
pub use std::time::Duration;

pub use futures_util::future::{join, join_all, try_join_all};
pub use tokio::task::JoinHandle;
pub use tokio::time::{sleep, timeout};
pub use zk_recipes::atomic::*;
pub use zk_recipes::barriers::*;
pub use zk_recipes::cache::*;
pub use zk_recipes::discovery::*;
pub use zk_recipes::job::*;
pub use zk_recipes::nodes::*;
pub use zk_recipes::shared::*;
pub use zk_recipes::testing::*;
pub use zk_recipes::*;
pub use zookeeper_client as zk;

pub use super::server::ServerBuilder;
pub use super::*;
