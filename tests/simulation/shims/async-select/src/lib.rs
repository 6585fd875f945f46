//! All that `zookeeper-client` needs of `async-select`, which chooses by addresses: here tokio chooses, by its seed.

pub use tokio::select;
