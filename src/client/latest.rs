//! The latest value of something that watchers see a copy of.

use std::mem;

use parking_lot::Mutex;

/// A value that is shown in a `watch` channel, from another thread if the writer must not wait.
///
/// There are two copies because a borrow from a `watch` channel blocks changes to it. A read must not wait for a
/// borrow, because the borrower may be the reader itself; so reads go by this copy. And a change that waits for a
/// borrow must show the value of the moment when it goes on, so that one change on its way is enough.
#[derive(Debug)]
pub(crate) struct Latest<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    value: T,
    /// Whether it is on its way to the channel.
    is_on_the_way: bool,
}

impl<T> Latest<T> {
    /// A value that the channel shows already.
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(State { value, is_on_the_way: false }))
    }

    /// Runs `act` while no one else changes the value. A change is not shown by this.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.0.lock().value)
    }

    /// Sends the value on its way to the channel. Returns false if it is on its way already: the change that is
    /// under way will [take](Self::take) the latest value.
    pub(crate) fn sets_out(&self) -> bool {
        !mem::replace(&mut self.0.lock().is_on_the_way, true)
    }

    /// Replaces the value and [sends it on its way](Self::sets_out) at once. Returns the value before, and whether
    /// it has to be shown.
    pub(crate) fn replace(&self, value: T) -> (T, bool) {
        let latest = State { value, is_on_the_way: true };
        let before = mem::replace(&mut *self.0.lock(), latest);
        (before.value, !before.is_on_the_way)
    }

    /// Reads the value to be shown, which has arrived by this. To be called within the change of the channel, when
    /// it waits for no borrow any more.
    pub(crate) fn take<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let mut latest = self.0.lock();
        latest.is_on_the_way = false;
        read(&latest.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_on_its_way_shows_the_latest_value_once() {
        let latest = Latest::new(0);
        assert_eq!(latest.replace(1), (0, true));
        assert_eq!(latest.replace(2), (1, false), "the first change shows it");
        latest.with(|value| *value += 1);
        assert!(!latest.sets_out());
        assert_eq!(latest.take(|value| *value), 3);
        assert!(latest.sets_out(), "nothing is on its way any more");
        assert_eq!(latest.take(|value| *value), 3);
        assert_eq!(latest.replace(4), (3, true));
    }
}
