//! What the layers above keep per client, opaque to the client.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// At most one shared value of each type.
#[derive(Default)]
pub(crate) struct Extensions(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Extensions {
    /// Returns the value of this type, created on first use.
    pub(crate) fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.0.lock();
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(values);
        value.downcast().unwrap_or_else(|_| unreachable!("the key is the type of the value"))
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Extensions")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_of_each_type() {
        let extensions = Extensions::default();
        *extensions.get::<Mutex<u32>>().lock() = 7;
        assert_eq!(*extensions.get::<Mutex<u32>>().lock(), 7);
        assert_eq!(*extensions.get::<Mutex<i32>>().lock(), 0);
    }
}
