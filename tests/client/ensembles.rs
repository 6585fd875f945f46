//! Locks on several ensembles.

use crate::prelude::*;
use crate::support::{connect, empty_server};

async fn try_at(ensembles: &Ensembles<Client>, path: &str) -> Result<Option<LockGuard>, Error> {
    InterProcessMutex::new(ensembles.of(path), path)?.try_acquire().await
}

/// As the guide says: programs that know the old ensembles, both, and the new ones never have a lock at the same time.
#[tokio::test]
async fn programs_that_take_both_places_keep_the_others_out_while_the_ensembles_change() {
    let (blue, green) = (empty_server().await, empty_server().await);
    let ensembles = async |names: &'static [&str]| {
        let mut clients = Vec::new();
        for name in names {
            clients.push((*name, connect(if *name == "blue" { &blue } else { &green }).await));
        }
        Ensembles::new(clients).unwrap()
    };
    let (old, new) = (ensembles(&["blue"]).await, ensembles(&["green", "blue"]).await);
    let (before, after) = (ensembles(&["blue"]).await, ensembles(&["blue", "green"]).await);
    let paths: Vec<_> = (0..20).map(|number| format!("/orders/{number}")).collect();
    assert!(paths.iter().any(|path| new.name_of(path) == "blue"));
    assert!(paths.iter().any(|path| new.name_of(path) == "green"));
    for path in &paths {
        let mut guards = vec![try_at(&before, path).await.unwrap().unwrap()];
        if before.name_of(path) != after.name_of(path) {
            guards.push(try_at(&after, path).await.unwrap().unwrap());
        }
        assert!(try_at(&old, path).await.unwrap().is_none(), "{path} at its old place");
        assert!(try_at(&new, path).await.unwrap().is_none(), "{path} at its new place");
        guards.remove(0).release().await.unwrap();
        assert_eq!(try_at(&new, path).await.unwrap().is_some(), guards.is_empty(), "{path}, half released");
    }
    for (_, client) in [old, new, before, after].iter().flat_map(Ensembles::iter) {
        client.clone().close().await;
    }
}
