//! What all blocking twins have in common.

/// Makes a type with a field `inner` the twin of the async type of the same name: each converts into the other.
macro_rules! twin {
    ($twin:ident) => {
        impl $twin {
            /// Returns the async twin.
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
