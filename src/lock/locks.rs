//! Locks by key.

use std::fmt::Display;

use super::mutex::InterProcessMutex;
use super::node_name::node_name;
use super::read_write::ReadWriteLock;
use super::semaphore::Semaphore;
use super::semaphore_mutex::SemaphoreMutex;
use crate::client::{Client, validate_path};
use crate::error::Result;

/// Locks by key: one for each order, user or file, whatever their ids look like.
///
/// Create a lock wherever you need it; that makes no request. Within a client, all locks of one key are **the same
/// lock object**, like clones, even if they come from different `Locks` on the same base path: an owner that holds
/// one of them re-enters through another. When a key has no lock object, holder or waiter left, the client keeps
/// nothing of it, and the servers remove its empty nodes after a while.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{Locks, Owner};
///
/// # struct Order;
/// # async fn load(_id: &str) -> Order { Order }
/// # async fn charge(_order: Order, _token: i64) {}
/// /// Handles `POST /orders/{id}/charge`. `locks` is part of the state of the web server.
/// async fn charge_order(locks: &Locks, id: &str) -> zk_recipes::Result<&'static str> {
///     let mutex = locks.mutex(id)?;
///     // One owner for each request, even if one task handles several at once.
///     let Some(guard) = mutex.owned_by(&Owner::new()).try_acquire_for(Duration::from_secs(5)).await? else {
///         return Ok("409: another request works on this order");
///     };
///     let token = guard.fencing_token();
///     guard.run(async { charge(load(id).await, token).await }).await?;
///     guard.release().await?;
///     Ok("200")
/// }
///
/// # async fn example() -> zk_recipes::Result<()> {
/// let client = zk_recipes::Client::connect("zk1:2181,zk2:2181,zk3:2181").await?;
/// let locks = Locks::new(&client, "/locks/orders")?;
/// charge_order(&locks, "2024/4711").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Keys
///
/// A key is any text, or any value that displays as text: `&str`, `u64`, a UUID. It is encoded as the name of a
/// node below the base path. Different keys have different names:
///
/// 1. ASCII letters, digits and `-` `.` `_` `~` `:` `@` stay as they are. Every other byte of the UTF-8 text
///    becomes `%` and two upper-case hexadecimal digits: `a/b` becomes `a%2Fb`.
/// 2. In `.`, `..` and `zookeeper`, which ZooKeeper reserves, the first character is encoded as well: `%2E`,
///    `%2E.`, `%7Aookeeper`.
/// 3. The empty key becomes `%empty`.
/// 4. A result longer than 192 bytes is shortened to its first 120 bytes, without an escape that is cut off there,
///    followed by `%sha256:` and the SHA-256 of the UTF-8 text in 64 lower-case hexadecimal digits.
///
/// A Java 17 program that uses Curator computes the same name, and so finds the same lock, with this function:
///
/// ```java
/// static String nodeName(String key) throws NoSuchAlgorithmException {
///     switch (key) {
///         case "": return "%empty";
///         case ".": return "%2E";
///         case "..": return "%2E.";
///         case "zookeeper": return "%7Aookeeper";
///     }
///     String name = URLEncoder.encode(key, StandardCharsets.UTF_8)
///         .replace("+", "%20").replace("*", "%2A").replace("%7E", "~").replace("%3A", ":").replace("%40", "@");
///     if (name.length() <= 192) return name;
///     byte[] hash = MessageDigest.getInstance("SHA-256").digest(key.getBytes(StandardCharsets.UTF_8));
///     return name.substring(0, 120).replaceFirst("%.?$", "") + "%sha256:" + HexFormat.of().formatHex(hash);
/// }
///
/// var mutex = new InterProcessMutex(client, "/locks/orders/" + nodeName(orderId));
/// ```
///
/// # One kind of lock for each key
///
/// All kinds of locks of one key use the same path, so that any of them can be found by the key alone. Use only
/// one kind for each key: while one kind is in use, acquiring another fails with
/// [`Error::KindConflict`](crate::Error::KindConflict), as on any path. If you want two kinds, use two base paths.
///
/// A semaphore and another kind of lock on one path, of different clients, are noticed only in part, because a semaphore
/// keeps its nodes one level below its path. An acquire fails with `KindConflict` if its client uses the path for the first
/// time and the other lock is held. A client that has used the path before does not look again, and two that come at the
/// same moment do not see each other: then both are granted.
///
/// Use the base path for nothing else, not even for a lock of its own. A lock created by
/// [`InterProcessMutex::new`] on the path of a key is a different lock object, and thus a separate contender.
///
/// # Cost
///
/// The first acquire of a key creates its node, and so does the first acquire after the servers have removed the node.
/// For a mutex or a read/write lock, that takes one more round trip for the first two keys, and none once the client has
/// learnt that keys are mostly new; for a semaphore it takes two. What the client knows of a queue saves requests, and
/// lasts as long as a lock object, a holder or a waiter exists: if you acquire one key again and again, keep its lock.
#[derive(Clone)]
#[must_use = "locks do nothing until they are acquired"]
pub struct Locks {
    client: Client,
    /// Without a trailing `/`.
    base: String,
}

debug_by!(Locks, |it| base: it.base);

impl Locks {
    /// Creates locks below the path `base`, which is itself below the client's namespace; `/` is the namespace.
    /// Makes no request.
    ///
    /// # Errors
    /// - [`Error::InvalidPath`](crate::Error::InvalidPath): `base` is not a valid path.
    pub fn new(client: &Client, base: &str) -> Result<Self> {
        let base = if base == "/" { "" } else { validate_path(base).map(|()| base)? };
        Ok(Self { client: client.clone(), base: base.to_owned() })
    }

    /// Returns the [`InterProcessMutex`] of a key.
    ///
    /// # Errors
    /// None at present: every key has a valid path.
    pub fn mutex(&self, key: impl Display) -> Result<InterProcessMutex> {
        InterProcessMutex::shared(&self.client, &self.path_of(key))
    }

    /// Returns the [`ReadWriteLock`] of a key.
    ///
    /// # Errors
    /// None at present: every key has a valid path.
    pub fn read_write(&self, key: impl Display) -> Result<ReadWriteLock> {
        ReadWriteLock::shared(&self.client, &self.path_of(key))
    }

    /// Returns the [`SemaphoreMutex`] of a key.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): this client has a [`Semaphore`] of this key
    ///   with another number of permits.
    pub fn semaphore_mutex(&self, key: impl Display) -> Result<SemaphoreMutex> {
        SemaphoreMutex::shared(&self.client, &self.path_of(key))
    }

    /// Returns the [`Semaphore`] of a key, with a fixed number of permits, which must be the same everywhere.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument): the number of permits is not allowed; see
    ///   [`Semaphore::new`].
    pub fn semaphore(&self, key: impl Display, permits: u32) -> Result<Semaphore> {
        Semaphore::shared(&self.client, &self.path_of(key), permits)
    }

    /// Returns the path of the locks of a key, below the client's namespace, for use with
    /// [`operate`](crate::operate), and programs in other languages.
    ///
    /// ```
    /// # fn main() -> zk_recipes::Result<()> {
    /// let client = zk_recipes::Client::connect_lazily("zk1:2181,zk2:2181,zk3:2181")?;
    /// let locks = zk_recipes::Locks::new(&client, "/locks/orders")?;
    /// assert_eq!(locks.path_of(4711), "/locks/orders/4711");
    /// assert_eq!(locks.path_of("2024/4711"), "/locks/orders/2024%2F4711");
    /// # Ok(())
    /// # }
    /// ```
    pub fn path_of(&self, key: impl Display) -> String {
        format!("{}/{}", self.base, node_name(&key.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockOptions;
    use crate::queue::{known_limits, known_queues};

    fn locks(base: &str) -> (Client, Locks) {
        // No server listens there.
        let client = Client::connect_lazily("127.0.0.1:1").unwrap();
        let locks = Locks::new(&client, base).unwrap();
        (client, locks)
    }

    #[test]
    fn a_base_is_a_path_or_the_root() {
        let (client, locks) = locks("/");
        assert_eq!(locks.path_of("a"), "/a");
        assert_eq!(Locks::new(&client, "/a/b").unwrap().path_of(""), "/a/b/%empty");
        for invalid in ["", "a", "/a/", "//", "/.."] {
            Locks::new(&client, invalid).unwrap_err();
        }
        let namespace = Client::builder().namespace("shop").connect_lazily("127.0.0.1:1").unwrap();
        let locks = Locks::new(&namespace, "/").unwrap();
        assert_eq!(locks.mutex("zookeeper").unwrap().path(), "/shop/%7Aookeeper");
        assert_eq!(locks.read_write(7).unwrap().path(), "/shop/7");
        assert_eq!(locks.semaphore(String::from("a b"), 2).unwrap().path(), "/shop/a%20b");
    }

    #[test]
    fn keys_are_forgotten() {
        let (client, locks) = locks("/locks");
        let mut kept = locks.mutex("kept").unwrap();
        for key in 0..20_000 {
            match key % 5 {
                0 => drop(locks.read_write(key).unwrap().with_options(LockOptions::new())),
                1 => drop(locks.semaphore(key, 7).unwrap()),
                2 => drop(locks.semaphore_mutex(key).unwrap()),
                3 => kept = locks.mutex(key).unwrap(),
                _ => drop(locks.mutex(key).unwrap().clone()),
            }
            // The kept one, and the two queues of a semaphore.
            assert!(known_queues(&client) <= 3);
        }
        assert_eq!((known_queues(&client), known_limits(&client)), (1, 0));
        drop(kept);
        assert_eq!(known_queues(&client), 0);
    }

    /// Now and then all objects of the key are dropped at the moment at which another is created.
    #[test]
    fn locks_that_are_made_and_dropped_at_once_are_the_same() {
        let (client, locks) = locks("/locks");
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    for _ in 0..20_000 {
                        let first = locks.mutex("a").unwrap();
                        let second = locks.mutex("a").unwrap();
                        assert!(first.is_same(&second));
                        drop(first);
                        assert!(second.is_same(&locks.mutex("a").unwrap()));
                    }
                });
            }
        });
        assert_eq!(known_queues(&client), 0);
    }

    #[test]
    fn a_lock_that_was_made_by_its_path_is_an_object_of_its_own() {
        let (client, locks) = locks("/locks");
        let of_key = locks.mutex("a").unwrap();
        let of_path = InterProcessMutex::new(&client, "/locks/a").unwrap();
        assert_eq!(of_key.path(), of_path.path());
        assert!(!of_key.is_same(&of_path));
        assert!(of_key.is_same(&Locks::new(&client, "/locks").unwrap().mutex("a").unwrap()));
        assert!(!of_key.is_same(&locks.mutex("b").unwrap()));
    }
}
