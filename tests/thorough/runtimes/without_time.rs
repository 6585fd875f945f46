//! What is read and learnt, on runtimes of any kind.

use super::*;

type Reading = Pin<Box<dyn Future<Output = zk_recipes::Result<LockGuard>>>>;

/// A writer that has begun to read, and what has come of that at once.
async fn begins_to_read(lock: &ReadWriteLock) -> (LockGuard, Reading, Poll<zk_recipes::Result<LockGuard>>) {
    let owner = Owner::new();
    let writing = within(lock.write().owned_by(&owner).acquire()).await.unwrap();
    let reader = lock.read().owned_by(&owner);
    let mut reading: Reading = Box::pin(async move { reader.acquire().await });
    let begun = poll_once(&mut reading);
    (writing, reading, begun)
}

/// Whatever becomes of a read, a writer that is dropped is gone.
#[tokio::test]
async fn past_the_last_number_a_writer_that_is_dropped_before_it_reads_is_gone() {
    let server = server_counting_from(A, i32::MAX).await;
    let zookeeper = bystander(&server).await;
    let client = connect_here(&server).await;
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let (writing, reading, begun) = begins_to_read(&lock).await;
    assert!(begun.is_pending());
    drop(writing);
    let outcome = within(reading).await.map(drop);
    let other = ReadWriteLock::new(&connect(&server).await, A).unwrap();
    let next = timeout(LONG, other.write().acquire()).await;
    let nodes = children(&zookeeper, A).await;
    assert!(next.is_ok(), "the read ended with {outcome:?}; these nodes keep others out: {nodes:?}");
}

/// What the application does wrong in a callback is not an end of the client.
#[tokio::test]
async fn a_panic_of_the_application_while_a_writer_reads_is_no_closed_client() {
    let server = empty_server().await;
    let acl = |path: &str| -> Option<Vec<Acl>> {
        assert!(!path.contains("__READ__"), "as it is to be");
        None
    };
    let client = Client::builder().acl_for_path(acl).connect(&server.connect_string()).await.unwrap();
    let owner = Owner::new();
    let lock = ReadWriteLock::new(&client, A).unwrap();
    let writing = lock.write().owned_by(&owner).acquire().await.unwrap();
    let reader = lock.read().owned_by(&owner);
    let outcome = within(tokio::spawn(async move { reader.acquire().await.map(drop) })).await;
    assert!(!client.is_closed());
    assert!(writing.is_valid());
    writing.release().await.unwrap();
    assert!(!matches!(outcome, Ok(Err(Error::Closed))), "the client is open: {outcome:?}");
}

// --- New paths ---

fn at(client: &Client, name: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, &format!("{PARENT}/{name}")).unwrap()
}

/// Teaches a client that the paths below [`PARENT`] are new.
async fn teach(client: &Client, who: &str) {
    for number in 0..3 {
        at(client, &format!("lesson-{who}-{number}")).acquire().await.unwrap().release().await.unwrap();
    }
}

/// Whatever a client has learnt, the outcome is the same, and so is the error.
#[tokio::test]
async fn what_is_learnt_changes_no_outcome() {
    let server = empty_server().await;
    let zookeeper = bystander(&server).await;
    let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    let [untaught, taught]: [Client; 2] = connect_many(&server).await;
    teach(&taught, "b").await;
    let acls = [
        Permission::ADMIN,
        Permission::ADMIN | Permission::READ,
        Permission::ADMIN | Permission::CREATE,
        Permission::ADMIN | Permission::READ | Permission::DELETE,
        Permission::ADMIN | Permission::READ | Permission::CREATE,
    ];
    let mut wrong = Vec::new();
    for (number, acl) in acls.into_iter().enumerate() {
        for is_there in [false, true] {
            let mut outcomes = Vec::new();
            for (who, client) in [("untaught", &untaught), ("taught", &taught)] {
                // The taught client takes what is below the parent for new in any case.
                let name = format!("acl-{number}-{is_there}-{who}");
                if is_there {
                    zookeeper.create(&format!("{PARENT}/{name}"), b"", &persistent).await.unwrap();
                }
                zookeeper.set_acl(PARENT, &[Acl::new(acl, AuthId::anyone())], None).await.unwrap();
                let outcome = timeout(LONG, at(client, &name).acquire()).await.map(|acquired| {
                    acquired.map(|guard| sequence(guard.node_path())).map_err(|error| {
                        error.to_string().replace(who, "").replace("untaught", "").replace("taught", "")
                    })
                });
                outcomes.push(outcome.map_err(|_| "hangs"));
                zookeeper
                    .set_acl(PARENT, &[Acl::new(Permission::ALL, AuthId::anyone())], None)
                    .await
                    .unwrap();
                if let Some(Ok(Err(_))) = outcomes.last() {
                    // It does not forget for it.
                    teach(&taught, &format!("c-{number}-{is_there}")).await;
                }
                teach(&taught, &format!("d-{number}-{is_there}-{who}")).await;
            }
            if outcomes[0] != outcomes[1] {
                wrong.push((number, is_there, outcomes));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A node that fits into a request of its own can be created at a new path, too.
#[tokio::test]
async fn a_node_that_fits_is_created_at_a_new_path() {
    let server = empty_server().await;
    let client = connect(&server).await;
    let existing = at(&client, "existing");
    existing.acquire().await.unwrap().release().await.unwrap();
    let mut wrong = Vec::new();
    for size in (1_048_000..1_048_600_usize).step_by(40) {
        teach(&client, &format!("size-{size}")).await;
        let options = LockOptions::new().node_data(vec![0; size]);
        let new = at(&client, &format!("x-{}", &size.to_string()[1..]));
        let [there, new] = [existing.clone(), new].map(|lock| {
            let options = options.clone();
            async move {
                let guard = within(lock.with_options(options)?.acquire()).await?;
                guard.release().await
            }
        });
        let (there, new) = (there.await, new.await);
        if there.is_ok() != new.is_ok() {
            wrong.push((size, there, new));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
