//! The random histories of caches, many times: `ZK_RECIPES_CACHE_HISTORIES` of them, or 10,000.

#[path = "../support/mod.rs"]
mod support;

#[path = "../recipes/cache/history.rs"]
mod history;
#[path = "../recipes/cache/reader.rs"]
mod reader;
