//! Values that processes share, for threads. The blocking twin of [`shared`](crate::shared).

mod count;
mod value;

pub use self::count::SharedCount;
pub use self::value::SharedValue;
