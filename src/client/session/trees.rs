//! Which persistent watches a session has, and how its one-shot watches get along with them.
//!
//! Before ZooKeeper 3.9, a server knows one kind of watch for each path of a connection (ZOOKEEPER-4466). A one-shot
//! watch on the data or the existence of a node replaces a persistent one on the same node; removing one of them
//! removes both (ZOOKEEPER-4472). No event tells of either. On any server, `zookeeper-client` removes a persistent watch
//! only if it has no other watch on the path.
//!
//! So all watches of the session go through this:
//! - Where a persistent watch is set already, one-shot watches on data and existence are served from its events, and the
//!   server has none of them. See [`Post`].
//! - A one-shot watch that the server has, or may have, may have ended a persistent watch that was set about the same
//!   time or later. It says so when it has been sent, and again when it is removed; then whoever has the persistent
//!   watch sets it again and reads again. There are only as many of these as were there before the persistent watch.
//! - A persistent watch is removed while there is no one-shot watch on its path, and no request for one: then it takes
//!   none along, and is removed for certain.
//!
//! A persistent watch that is set after a one-shot one does it no harm: the server sends each event once, and the
//! client tells both.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::post::{Local, Post};

/// The watches of a session, by path.
#[derive(Debug, Default)]
pub(super) struct Trees {
    by_path: Mutex<HashMap<Arc<str>, Tree>>,
}

#[derive(Debug, Default)]
struct Tree {
    posts: Vec<Weak<Post>>,
    /// The one-shot watches on this path that the server has or may have, and the requests for them.
    one_shots: usize,
}

/// A persistent watch, from before the request for it on.
#[derive(Debug)]
pub(super) struct Registered {
    trees: Arc<Trees>,
    post: Arc<Post>,
}

/// A one-shot watch that the server has or may have, from before the request for it on.
#[derive(Debug)]
pub(super) struct OneShot {
    trees: Arc<Trees>,
    path: Arc<str>,
    /// Whether it is on the data or the existence of the node, and not on its children.
    displaces: bool,
    is_spent: bool,
}

/// How a one-shot watch is to be set.
#[derive(Debug)]
pub(super) enum Setting {
    /// By the server.
    Server(OneShot),
    /// It is set. The node is only to be read.
    Local(Local),
}

impl Trees {
    pub(super) fn register(self: &Arc<Self>, path: &str) -> Registered {
        let path: Arc<str> = path.into();
        let post = Arc::new(Post::new(path.clone()));
        self.by_path.lock().entry(path).or_default().posts.push(Arc::downgrade(&post));
        Registered { trees: self.clone(), post }
    }

    /// Watches the data or the existence of a node. To be called before the request.
    pub(super) fn watch_node(self: &Arc<Self>, path: &str) -> Setting {
        let mut by_path = self.by_path.lock();
        let local = by_path.get(path).and_then(|tree| tree.posts().find_map(|post| post.watch()));
        match local {
            Some(local) => Setting::Local(local),
            None => Setting::Server(self.one_shot(&mut by_path, path, true)),
        }
    }

    /// Watches the children of a node, which displaces no other watch. To be called before the request.
    pub(super) fn watch_children(self: &Arc<Self>, path: &str) -> OneShot {
        self.one_shot(&mut self.by_path.lock(), path, false)
    }

    fn one_shot(
        self: &Arc<Self>,
        by_path: &mut HashMap<Arc<str>, Tree>,
        path: &str,
        displaces: bool,
    ) -> OneShot {
        let path: Arc<str> = path.into();
        by_path.entry(path.clone()).or_default().one_shots += 1;
        OneShot { trees: self.clone(), path, displaces, is_spent: false }
    }
}

impl Tree {
    fn posts(&self) -> impl Iterator<Item = Arc<Post>> {
        self.posts.iter().filter_map(Weak::upgrade)
    }

    fn is_empty(&self) -> bool {
        self.posts.is_empty() && self.one_shots == 0
    }
}

impl Registered {
    pub(super) fn post(&self) -> &Arc<Post> {
        &self.post
    }

    /// Removes the watch if it takes no other one along, and returns whether it did. Those who watch the node through it
    /// are told to watch it anew.
    pub(super) fn remove(&self) -> bool {
        // Under the lock: whatever is registered later is sent later.
        let by_path = self.trees.by_path.lock();
        let is_free = by_path.get(self.post.path()).is_none_or(|tree| {
            tree.one_shots == 0 || tree.posts().any(|post| !Arc::ptr_eq(&post, &self.post) && post.is_set())
        });
        if is_free {
            self.post.end();
        }
        is_free
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.post.end();
        let mut by_path = self.trees.by_path.lock();
        if let Some(tree) = by_path.get_mut(self.post.path()) {
            tree.posts.retain(|post| !std::ptr::eq(post.as_ptr(), Arc::as_ptr(&self.post)));
            tree.posts().for_each(|post| post.wake());
            if tree.is_empty() {
                by_path.remove(self.post.path());
            }
        }
    }
}

impl OneShot {
    /// The request for it is sent.
    pub(super) fn is_sent(&self) {
        if self.displaces
            && let Some(tree) = self.trees.by_path.lock().get(&self.path)
        {
            tree.posts().for_each(|post| post.displace());
        }
    }

    /// The event has occurred, or the server has not set it, so that nothing is removed when this is dropped.
    pub(super) fn spend(mut self) {
        self.is_spent = true;
    }
}

impl Drop for OneShot {
    /// Comes after the request to remove it.
    fn drop(&mut self) {
        let mut by_path = self.trees.by_path.lock();
        let Some(tree) = by_path.get_mut(&self.path) else { return };
        tree.one_shots -= 1;
        match self.displaces && !self.is_spent {
            true => tree.posts().for_each(|post| post.displace()),
            false => tree.posts().for_each(|post| post.wake()),
        }
        if tree.is_empty() {
            by_path.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_shot(trees: &Arc<Trees>, path: &str) -> OneShot {
        match trees.watch_node(path) {
            Setting::Server(one_shot) => one_shot,
            Setting::Local(_) => panic!("the server has no persistent watch yet"),
        }
    }

    #[test]
    fn a_one_shot_watch_displaces_those_on_its_path() {
        let trees = Arc::new(Trees::default());
        let [one, two] = ["/a", "/b"].map(|path| trees.register(path));
        let one_shot = one_shot(&trees, "/a");
        assert!(!one.post().is_displaced(), "it is not sent yet");
        one_shot.is_sent();
        assert!(one.post().is_displaced());
        assert!(!two.post().is_displaced());
        drop(one);
        let again = trees.register("/a");
        assert!(!again.post().is_displaced(), "it comes later");
        drop(one_shot);
        assert!(again.post().is_displaced(), "the removal removes both");
    }

    #[test]
    fn a_watch_that_has_fired_or_is_on_the_children_displaces_none() {
        let trees = Arc::new(Trees::default());
        let before = [one_shot(&trees, "/a"), trees.watch_children("/a")];
        let tree = trees.register("/a");
        let [fired, on_children] = before;
        fired.spend();
        on_children.is_sent();
        assert!(!tree.remove(), "the server would be asked to remove nothing");
        drop(on_children);
        assert!(!tree.post().is_displaced());
        assert!(tree.remove());
    }

    #[test]
    fn nothing_is_left_of_what_has_ended() {
        let trees = Arc::new(Trees::default());
        let one_shot = one_shot(&trees, "/a");
        let both = [trees.register("/a"), trees.register("/a")];
        drop(both);
        drop(one_shot);
        assert!(trees.by_path.lock().is_empty());
    }
}
