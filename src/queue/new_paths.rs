//! Which paths are likely not to exist: learnt from those that were used before.
//!
//! Only the number of round trips depends on it. What is learnt is bounded, and no path is stored.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A path that was used is taken to exist for as long as this at least, and for twice as long at most. The servers look
/// for empty containers once a minute.
const LIFETIME: Duration = Duration::from_secs(30);

/// How many paths, and parents, are remembered at least; at most twice as many.
const PATHS: usize = 8192;
const PARENTS: usize = 1024;

/// The highest score of a parent, and the lowest with which the next path below it is taken to be new.
const CERTAIN: u8 = 3;
const LIKELY: u8 = 2;

/// What a client has learnt about the paths of its queues.
#[derive(Debug, Default)]
pub(super) struct NewPaths {
    hasher: RandomState,
    learnt: Mutex<Learnt>,
}

#[derive(Debug)]
struct Learnt {
    used: Recent<()>,
    /// When the younger ones among the used paths began to be recorded.
    since: Instant,
    /// For each parent: whether the last paths below it were new. It takes two to change the mind.
    scores: Recent<u8>,
    /// The paths whose ACL was looked at.
    looked_at: Recent<()>,
    wrong: u64,
}

/// What is expected of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forecast {
    /// It exists, since it was used lately.
    Used,
    /// It exists, as others below its parent do.
    Exists,
    /// It does not exist.
    New,
}

impl NewPaths {
    pub(super) fn forecast(&self, path: &str) -> Forecast {
        let (path, parent) = self.hashes(path);
        let mut learnt = self.learnt.lock();
        learnt.age(Instant::now());
        if learnt.used.get(path).is_some() {
            return Forecast::Used;
        }
        let score = learnt.scores.get(parent).unwrap_or_default();
        if score >= LIKELY { Forecast::New } else { Forecast::Exists }
    }

    /// Records whether the path did exist.
    pub(super) fn learn(&self, path: &str, forecast: Forecast, was_new: bool) {
        let (_, parent) = self.hashes(path);
        let mut learnt = self.learnt.lock();
        if forecast != Forecast::Used {
            let score = learnt.scores.get(parent).unwrap_or_default();
            let score = if was_new { CERTAIN.min(score + 1) } else { score.saturating_sub(1) };
            learnt.scores.insert(parent, score, PARENTS);
        }
        if was_new != (forecast == Forecast::New) {
            learnt.wrong += 1;
            let wrong_so_far = learnt.wrong;
            drop(learnt);
            tracing::debug!(
                path,
                was_new,
                wrong_so_far,
                "one more round trip, for a path that was not as expected"
            );
        }
    }

    /// Whether the ACL of the path was looked at before. It is from now on.
    pub(super) fn was_looked_at(&self, path: &str) -> bool {
        let (path, _) = self.hashes(path);
        let mut learnt = self.learnt.lock();
        let was_looked_at = learnt.looked_at.get(path).is_some();
        learnt.looked_at.insert(path, (), PATHS);
        was_looked_at
    }

    /// Records that the path exists, because there is a node below it.
    pub(super) fn is_used(&self, path: &str) {
        let (path, _) = self.hashes(path);
        let mut learnt = self.learnt.lock();
        learnt.age(Instant::now());
        learnt.used.insert(path, (), PATHS);
    }

    /// Two paths with the same hash are mistaken for each other, which costs a round trip.
    fn hashes(&self, path: &str) -> (u64, u64) {
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        (self.hasher.hash_one(path), self.hasher.hash_one(parent))
    }
}

impl Learnt {
    /// Forgets paths that were not used for long.
    fn age(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        if age >= LIFETIME {
            self.used.age();
            if age >= 2 * LIFETIME {
                self.used.age();
            }
            self.since = now;
        }
    }
}

impl Default for Learnt {
    fn default() -> Self {
        Self {
            used: Recent::default(),
            since: Instant::now(),
            scores: Recent::default(),
            looked_at: Recent::default(),
            wrong: 0,
        }
    }
}

/// What was recorded lately.
#[derive(Debug)]
struct Recent<V> {
    younger: HashMap<u64, V>,
    older: HashMap<u64, V>,
}

impl<V: Copy> Recent<V> {
    fn get(&self, key: u64) -> Option<V> {
        self.younger.get(&key).or_else(|| self.older.get(&key)).copied()
    }

    fn insert(&mut self, key: u64, value: V, limit: usize) {
        if self.younger.len() >= limit && !self.younger.contains_key(&key) {
            self.age();
        }
        self.younger.insert(key, value);
    }

    /// Forgets the older half.
    fn age(&mut self) {
        self.older = std::mem::take(&mut self.younger);
    }
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { younger: HashMap::new(), older: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(paths: &NewPaths, path: &str, was_new: bool) -> Forecast {
        let forecast = paths.forecast(path);
        paths.learn(path, forecast, was_new);
        forecast
    }

    #[tokio::test(start_paused = true)]
    async fn it_takes_two_to_change_the_mind() {
        let paths = NewPaths::default();
        let learns = |number: u32, was_new| learn(&paths, &format!("/orders/{number}"), was_new);
        assert_eq!(
            [learns(0, true), learns(1, true), learns(2, true)],
            [Forecast::Exists, Forecast::Exists, Forecast::New]
        );
        assert_eq!(
            [learns(3, false), learns(4, false), learns(5, false)],
            [Forecast::New, Forecast::New, Forecast::Exists]
        );
        assert_eq!(paths.learnt.lock().wrong, 4);
        assert_eq!(paths.forecast("/users/0"), Forecast::Exists, "another parent");
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_exists_for_a_while_after_its_use() {
        let paths = NewPaths::default();
        for number in 0..3 {
            learn(&paths, &format!("/orders/{number}"), true);
        }
        paths.is_used("/orders/0");
        assert_eq!(paths.forecast("/orders/0"), Forecast::Used);
        assert_eq!(paths.forecast("/orders/1"), Forecast::New);
        tokio::time::advance(LIFETIME).await;
        assert_eq!(paths.forecast("/orders/0"), Forecast::Used);
        paths.is_used("/orders/1");
        tokio::time::advance(LIFETIME).await;
        assert_eq!(paths.forecast("/orders/0"), Forecast::New);
        assert_eq!(paths.forecast("/orders/1"), Forecast::Used);
        tokio::time::advance(2 * LIFETIME).await;
        assert_eq!(paths.forecast("/orders/1"), Forecast::New);
        // What becomes of a path that was used says nothing about the others.
        paths.is_used("/orders/2");
        for _ in 0..5 {
            assert_eq!(learn(&paths, "/orders/2", false), Forecast::Used);
        }
        assert_eq!(paths.forecast("/orders/3"), Forecast::New);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_grows_without_bound() {
        let paths = NewPaths::default();
        for number in 0..3 * PATHS {
            let path = format!("/{number}/lock");
            learn(&paths, &path, true);
            paths.is_used(&path);
        }
        let learnt = paths.learnt.lock();
        let count = |recent: (usize, usize)| recent.0 + recent.1;
        assert!(count((learnt.used.younger.len(), learnt.used.older.len())) <= 2 * PATHS);
        assert!(count((learnt.scores.younger.len(), learnt.scores.older.len())) <= 2 * PARENTS);
    }
}
