//! All that `zookeeper-client`'s hash maps need of `ahash`, which hashes by addresses: here the same in each process.

use std::hash::{BuildHasher, DefaultHasher};

#[derive(Clone, Copy, Debug, Default)]
pub struct RandomState;

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        DefaultHasher::new()
    }
}
