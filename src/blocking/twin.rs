//! What all twins have in common.

/// Makes a type with a field `inner` the twin of the async one of the same name: each can be had from the other.
macro_rules! twin {
    ($twin:ident) => {
        impl $twin {
            /// The same for async code.
            pub fn as_async(&self) -> &crate::$twin {
                &self.inner
            }
        }

        impl From<crate::$twin> for $twin {
            fn from(inner: crate::$twin) -> Self {
                Self { inner }
            }
        }

        impl From<$twin> for crate::$twin {
            fn from(twin: $twin) -> Self {
                twin.inner
            }
        }
    };
}

pub(super) use twin;
