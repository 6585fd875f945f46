//! The guide: how to use these locks in production, chapter by chapter.
//!
//! - [Losing a lock](losing_a_lock): what a lock guarantees, how its holder learns in time that it is lost, and how to
//!   protect what you write under it. Read this one first.
//! - [Leaders](leaders): which of the three types to take, a job that runs once, and how long nobody leads when a
//!   leader dies.
//! - [Nodes and groups](nodes): nodes that exist as long as a process does, and who is a member of a group.
//! - [Barriers](barriers): processes that wait until one opens the way, or until all have come.
//! - [Caches](caches): nodes that are kept up to date in memory, and what that guarantees.
//! - [Values](values): values and counters that processes share, and ids: which type to take, and what it costs.
#![cfg_attr(
    feature = "discovery",
    doc = "- [Service discovery](discovery): registering services, finding them, and picking one for each call."
)]
//! - [From Curator](from_curator): each class and method, its counterpart, and what differs.
//! - [From Redisson, Redis or a database row](from_redisson): each call and its counterpart, and fencing tokens in SQL.
//! - [With kazoo and others](kazoo): the names that kazoo's locks need on a shared path.
//! - [Cost and tuning](cost): requests, time and memory of each lock, and how to choose the session timeout.
//! - [Observing](observing): metrics, dashboards and alerts; spans, and warnings of long waits and holds.
//! - [Operations](operations): security, outages, what operators can see and do, and how to end a program.
//! - [zklock]: a command that runs other commands under locks, and shows and operates locks.
//! - [Scale](scale): how much one ensemble carries, and how to place locks on several.
//! - [Simulation](simulation): your own service beside machines that stand still and networks that fail, from one seed.
//! - [Testing](testing): servers for your own tests, the examples, and the test suites of this crate.
//! - [Troubleshooting](troubleshooting): what goes wrong, by symptom: how to be sure, and what to do.
//! - [What is missing](missing): what Curator has and this crate does not, and why.

/// A chapter. The links that its file defines at the end are for readers of the file. Here, the definitions of `links.md`
/// come first, so they count.
macro_rules! chapter {
    ($(#[$attribute:meta])* $name:ident) => {
        #[doc = include_str!("links.md")]
        $(#[$attribute])*
        #[doc = include_str!(concat!(stringify!($name), ".md"))]
        pub mod $name {}
    };
}

chapter!(barriers);
chapter!(caches);
chapter! {
    /// What locks cost in requests, time and memory, and what there is to tune.
    ///
    #[doc = include_str!("round_trips.svg")]
    ///
    cost
}
chapter! {
    #[cfg(feature = "discovery")]
    #[doc = include_str!("links_of_discovery.md")]
    discovery
}
chapter!(from_curator);
chapter!(from_redisson);
chapter!(kazoo);
chapter! {
    /// How to have one of many processes do what only one may do: run the schedule, write the index, be the primary.
    ///
    #[doc = include_str!("leader_change.svg")]
    ///
    leaders
}
chapter! {
    /// How a lock is lost, how its holder finds out in time, and how to protect what the lock protects.
    ///
    #[doc = include_str!("timeline.svg")]
    ///
    losing_a_lock
}
chapter!(missing);
chapter!(nodes);
chapter!(observing);
chapter!(operations);
chapter!(scale);
chapter!(simulation);
chapter!(testing);
chapter!(troubleshooting);
chapter!(values);
chapter!(zklock);
