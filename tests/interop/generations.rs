//! The scenarios that are run on a generation of the servers, each as a test.

/// Each scenario of the modules beside this, on one generation.
macro_rules! on_generation {
    ($module:ident, $generation:ident, $($kind:ident: $($scenario:ident),+;)+) => {
        mod $module {
            $($(
                #[tokio::test]
                #[ignore = "it needs what tests/interop/install-peers installs"]
                async fn $scenario() {
                    super::$kind::$scenario(crate::installed::Generation::$generation).await;
                }
            )+)+
        }
    };
}

macro_rules! on_each_generation {
    ($($scenarios:tt)+) => {
        on_generation! { debian, Debian, $($scenarios)+ }
        on_generation! { current, Current, $($scenarios)+ }
    };
}
