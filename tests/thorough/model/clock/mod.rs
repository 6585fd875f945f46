//! The rule by which a session is valid, against every order of what a client, its server and the leader may do in time.

mod sessions;
mod world;

// The library's own files.
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../../../src/client/keep_alive.rs"]
mod keep_alive;
#[allow(dead_code, unused_imports, unreachable_pub)]
#[path = "../../../../src/client/signs.rs"]
mod signs;

use self::keep_alive::KeepAlive;
pub(crate) use self::world::{Change, Session, World};
