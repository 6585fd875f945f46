//! Behaviour in time, step by step, on a clock that does not wait: what random faults find rarely, or no judge can see.
//!
//! Each test is a history. It is given a stage, which connects clients and closes them in the end; `tools` has what many do.
//!
//! ```text
//! #[history]
//! async fn who_waits_is_next(stage: Stage) {
//!     let [one, other] = stage.clients().await;
//!     let held = mutex(&one).acquire().await.unwrap();
//!     let waiting = waiter(&mutex(&other)).await;
//!     held.release().await.unwrap();
//!     granted(waiting).await;
//! }
//! ```

mod adopted;
mod asking;
mod barriers;
mod caches;
mod closing;
mod cohort;
mod cohort_in_trouble;
mod combined;
mod connections;
mod crowds;
mod deadlines;
mod deadlocks;
mod downgrades;
#[path = "../../../support/every_kind.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod every_kind;
mod every_lock;
mod gates;
mod giving_up;
mod grants;
mod holding;
mod hostile;
mod jobs;
mod kept;
#[path = "../../../support/kinds.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod kinds;
mod kinds_at_one_path;
mod known_in_time;
mod leaders;
mod lingering;
mod lingering_attacks;
mod losses;
mod lost_places;
mod lost_replies;
mod multi_locks;
mod new_paths;
mod omitted;
mod only_permit;
mod permits;
mod pitfalls;
mod policies;
mod poll_times;
mod proxy;
mod quorum;
mod readers;
mod release_together;
mod removal;
mod requests;
mod restarts;
#[path = "../../../support/room.rs"]
#[allow(dead_code, unreachable_pub, reason = "others use the rest")]
mod room;
mod stage;
mod standing;
mod static_instances;
mod takes;
mod tickets;
mod tools;
mod transactions;
mod ttl;
mod unanswered;
mod values;

/// What every history is told with.
mod prelude {
    pub(crate) use std::cell::{Cell, RefCell};
    pub(crate) use std::rc::Rc;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    pub(crate) use std::time::Duration;

    pub(crate) use futures_util::FutureExt;
    pub(crate) use futures_util::future::{join, join_all, try_join_all};
    pub(crate) use tokio::task::{JoinHandle, spawn_local, yield_now};
    pub(crate) use tokio::time::{Instant, sleep, sleep_until, timeout};
    pub(crate) use zk_recipes::testing::{
        Fate, Intercepted, ManualClock, MemoryEnsemble, MemoryEnsembleBuilder, MemoryVersion, ObservedKind,
        Request, Traffic,
    };
    pub(crate) use zk_recipes::zookeeper_client as zk;
    pub(crate) use zk_recipes::*;
    pub(crate) use zk_recipes_history::history;

    pub(crate) use super::kinds::{KINDS, Lock, assert_lost, in_task};
    pub(crate) use super::poll_times::poll_times;
    pub(crate) use super::proxy::Proxy;
    pub(crate) use super::room::Room;
    pub(crate) use super::stage::*;
    pub(crate) use super::tools::*;
}
