//! Authentication by SASL with DIGEST-MD5.

use zk_recipes::{Error, InterProcessMutex};
use zookeeper_client::{self as zk, SaslOptions};

use crate::installed::Generation;
use crate::stage::{builder, hold_over_a_cut, lock_once, sasl_server};
use crate::support::within;
use crate::wiretap::Wiretap;

pub(crate) async fn sasl_takes_the_right_password_only(generation: Generation) {
    let files = tempfile::tempdir().unwrap();
    let server = sasl_server(generation, &files).await;
    let hosts = server.connect_string();
    let user = |name: &'static str, password: &'static str| {
        builder().sasl(SaslOptions::digest_md5(name, password)).creator_only()
    };

    let tap = Wiretap::to(server.port()).await;
    let alice = within(user("alice", "right").connect(&format!("127.0.0.1:{}", tap.port))).await.unwrap();
    lock_once(&alice, "/alice/lock").await;
    let (acl, _) = alice.zookeeper().await.unwrap().get_acl("/alice/lock").await.unwrap();
    assert_eq!(acl, [zk::Acl::new(zk::Permission::ALL, zk::AuthId::new("sasl", "alice"))]);

    hold_over_a_cut(&alice, "/alice/lock", &tap).await;

    let bob = within(user("bob", "bobs").connect(&hosts)).await.unwrap();
    let mutex = InterProcessMutex::new(&bob, "/alice/lock").unwrap();
    let error = within(mutex.acquire()).await.unwrap_err();
    assert!(error.to_string().contains("lack a permission"), "{error}");

    for (name, password) in [("alice", "wrong"), ("mallory", "right")] {
        let use_it = async {
            let client = user(name, password).connect(&hosts).await?;
            InterProcessMutex::new(&client, "/alice/lock").unwrap().acquire().await
        };
        let error = within(use_it).await.unwrap_err();
        match (&error, generation) {
            (Error::AuthFailed { .. }, _) => {
                assert!(error.to_string().contains("refused the credentials"), "{error}")
            }
            // ZooKeeper 3.8 gives a session before it has looked at the password, and nothing else.
            (Error::ZooKeeper { source: zk::Error::NoAuth, .. }, Generation::Debian) => {}
            _ => panic!("{name}: {error}"),
        }
    }
}
