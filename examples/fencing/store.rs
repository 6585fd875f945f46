//! What the lock protects: rows in SQLite, which knows nothing of ZooKeeper.
//!
//! A row takes part in its own protection: it keeps the greatest token that it has seen.
//!
//! - **The check is part of the write**, one statement; one transaction would do as well. Who checks first and
//!   writes then can be stopped in between, just as between a look at the lock and a write.
//! - **An equal token is taken**: one holder writes as often as it likes.
//! - **Each row has its own token**, and needs no other. All tokens of one ensemble come from one count, so it
//!   does not matter on which path a lock is; a lock may even move to another one. Tokens of another ensemble,
//!   or of one that was set up anew, tell nothing.
//! - **Only a write is refused, and only after a later one.** Until the next holder has written to a row, the
//!   last one still can. So who decides by what it reads there puts its token on the row with the read:
//!   `UPDATE ... SET token = ? WHERE ... AND token <= ? RETURNING value`.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::Result;

pub(crate) const UNPROTECTED: &str = "unprotected";
pub(crate) const PROTECTED: &str = "protected";

pub(crate) struct Store(Connection);

pub(crate) struct Row {
    pub(crate) value: String,
    token: i64,
}

impl Store {
    /// A store with both rows. That they exist from the start leaves one reason for which a write changes
    /// nothing.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let store = Self::open(path)?;
        store.0.execute_batch("CREATE TABLE things (name TEXT PRIMARY KEY, value TEXT, token INTEGER)")?;
        for name in [UNPROTECTED, PROTECTED] {
            store.0.execute("INSERT INTO things VALUES (?, 'nothing', 0)", [name])?;
        }
        Ok(store)
    }

    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(Self(connection))
    }

    /// Takes whatever comes.
    pub(crate) fn write_unprotected(&self, value: &str) -> Result<()> {
        self.0.execute("UPDATE things SET value = ? WHERE name = ?", [value, UNPROTECTED])?;
        Ok(())
    }

    /// Answers whether the row was written: not if it has seen a greater token. Then the lock was lost.
    pub(crate) fn write_protected(&self, value: &str, token: i64) -> Result<bool> {
        let write = "UPDATE things SET value = ?1, token = ?2 WHERE name = ?3 AND token <= ?2";
        Ok(self.0.execute(write, params![value, token, PROTECTED])? == 1)
    }

    pub(crate) fn row(&self, name: &str) -> Result<Row> {
        let read = "SELECT value, token FROM things WHERE name = ?";
        let row = |row: &rusqlite::Row<'_>| Ok(Row { value: row.get(0)?, token: row.get(1)? });
        Ok(self.0.query_row(read, [name], row)?)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.token {
            0 => write!(f, "{}", self.value),
            token => write!(f, "{}, token {token}", self.value),
        }
    }
}
