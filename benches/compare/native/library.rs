//! What the loads ask of a lock library.

use std::future::Future;

use crate::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    /// One that lingers.
    Lingering,
    /// At a path that does not exist, below one that does.
    FreshMutex,
    Semaphore,
    /// Of the three paths of [`members`].
    Multi,
}

pub(crate) trait Library: Send + Sync + 'static {
    type Session: Send + Sync + 'static;
    /// An object of the library that can be acquired several times.
    type Lock: Send + Sync + 'static;
    type Held: Send + 'static;

    fn connect(servers: &str) -> impl Future<Output = Result<Self::Session>> + Send;
    fn lock(session: &Self::Session, kind: Kind, path: &str) -> Result<Self::Lock>;
    fn acquire(lock: &Self::Lock) -> impl Future<Output = Result<Self::Held>> + Send;
    fn release(held: Self::Held) -> impl Future<Output = Result<()>> + Send;
    fn close(session: Self::Session) -> impl Future<Output = ()> + Send;
}

pub(crate) fn members(path: &str) -> [String; 3] {
    ["a", "b", "c"].map(|name| format!("{path}/{name}"))
}

pub(crate) fn unsupported<T>(kind: Kind) -> Result<T> {
    Err(format!("this library has no {kind:?}").into())
}
