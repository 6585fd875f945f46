//! Connect strings: what the library accepts, `zookeeper-client` must accept as well.

use futures_util::FutureExt;
use zookeeper_client as zk;

use crate::client::hosts;

/// # Panics
/// If a connect string is accepted here and refused there, or what it says is not what is passed on.
pub fn check(text: &str) {
    for has_tls_options in [false, true] {
        let Ok(hosts) = hosts::validate(text, has_tls_options) else { continue };
        let passed_on = hosts.to_string();
        assert!(zookeeper_client_accepts(&passed_on), "accepted only here: {text:?}, as {passed_on:?}");
        assert_eq!(hosts::validate(&passed_on, has_tls_options).as_ref(), Ok(&hosts), "{text:?} changes its meaning");
    }
}

/// It parses the connect string, and then fails for want of a CA.
fn zookeeper_client_accepts(text: &str) -> bool {
    let connector = zk::Client::connector().with_tls(zk::TlsOptions::new());
    let refused = connector.secure_connect(text).now_or_never().expect("it fails before it connects");
    matches!(refused, Err(zk::Error::BadArguments(&"no tls ca")))
}
