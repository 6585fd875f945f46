//! Connect strings: what the library accepts, `zookeeper-client` must accept as well.

use futures_util::FutureExt;
use zookeeper_client as zk;

use crate::client::hosts;

/// # Panics
/// If a connect string is accepted here and refused there, or what it says is not what is passed on.
pub fn check(text: &str) {
    for has_tls_options in [false, true] {
        let Ok(hosts) = hosts::validate(text, has_tls_options) else { continue };
        for (server, passed_on) in hosts.servers.iter().zip(hosts.one_by_one()) {
            assert!(zookeeper_client_accepts(&passed_on), "accepted only here: {text:?}, as {passed_on:?}");
            let again = hosts::validate(&passed_on, has_tls_options).expect("it was valid before");
            let is_the_same = again.servers.as_slice() == [server.clone()] && again.chroot == hosts.chroot;
            assert!(is_the_same, "{text:?} changes its meaning as {passed_on:?}");
        }
    }
}

/// It parses the connect string, and then fails for want of a CA.
fn zookeeper_client_accepts(text: &str) -> bool {
    let connector = zk::Client::connector().with_tls(zk::TlsOptions::new());
    let refused = connector.secure_connect(text).now_or_never().expect("it fails before it connects");
    matches!(refused, Err(zk::Error::BadArguments(&"no tls ca")))
}
