//! The scenarios that are run on both generations of the servers.

/// Runs each scenario on both generations.
macro_rules! with_each_generation {
    ($($kind:ident: $($scenario:ident),+;)+) => {
        mod debian {
            $($(
                #[tokio::test]
                async fn $scenario() {
                    crate::$kind::$scenario(crate::installed::Generation::Debian).await;
                }
            )+)+
        }

        mod current {
            $($(
                #[tokio::test]
                async fn $scenario() {
                    crate::$kind::$scenario(crate::installed::Generation::Current).await;
                }
            )+)+
        }
    };
}
