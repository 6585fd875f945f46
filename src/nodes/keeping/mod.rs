//! What keeps a node: a task for each, on the client's runtime.

mod decision;
mod doubt;
mod keeper;
mod paths;
mod progress;
mod removal;
mod repairs;
mod requests;
mod sessions;
mod touch;

pub(crate) use self::decision::IsSame;
pub(super) use self::keeper::Keeper;
pub(super) use self::progress::{Progress, Wanted};
pub(super) use self::sessions::OwnSessions;
pub(super) use self::touch::Touch;
