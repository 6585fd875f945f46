//! The overlap detector of all tests.

use std::sync::Mutex;

use zk_recipes::LockGuard;

/// A place for one holder of the whole, or for several with a share each. Sees more at once than it has room for, and
/// tokens, with their turns, that do not grow.
#[derive(Debug, Default)]
pub struct Room(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    taken: u32,
    visits: usize,
    last: Grant,
    last_of_whole: Grant,
}

/// A token and a turn.
type Grant = (i64, u64);

/// Somebody who is inside until this is dropped.
#[derive(Debug)]
pub struct Stay<'a> {
    room: &'a Room,
    share: u32,
}

impl Room {
    pub const WHOLE: u32 = 60;

    /// Lets in whoever has this guard, and nobody beside it.
    pub fn enter(&self, guard: &LockGuard) -> Stay<'_> {
        self.admit((guard.fencing_token(), guard.turn()), Self::WHOLE)
    }

    /// Lets in whoever has this token and fills this much of the room.
    pub fn share(&self, token: i64, share: u32) -> Stay<'_> {
        self.admit((token, 0), share)
    }

    fn admit(&self, grant: Grant, share: u32) -> Stay<'_> {
        let mut inside = self.0.lock().unwrap();
        inside.taken += share;
        assert!(inside.taken <= Self::WHOLE, "too many at once: {inside:?}");
        let is_whole = share == Self::WHOLE;
        let before = if is_whole { inside.last } else { inside.last_of_whole };
        assert!(before < grant, "the tokens of grants must grow: {grant:?}, {inside:?}");
        inside.last = inside.last.max(grant);
        if is_whole {
            inside.last_of_whole = grant;
        }
        inside.visits += 1;
        Stay { room: self, share }
    }

    /// How often somebody came in.
    pub fn visits(&self) -> usize {
        self.0.lock().unwrap().visits
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        // Whoever panicked inside has said why.
        let Ok(mut inside) = self.room.0.lock() else { return };
        inside.taken -= self.share;
    }
}
