//! Whose a lock is.

use super::*;

/// The first to come is the first to go, and the others still hold.
#[tokio::test]
async fn an_owner_enters_again_without_a_request() {
    let server = empty_server().await;
    // It sends no ping meanwhile.
    let client = Client::builder().session_timeout(BOUND).connect(&server.connect_string()).await.unwrap();
    let session = session_id(&client).await;
    let sent = async || server.session_packets(session).await.unwrap();
    let nodes = |guard: &LockGuard| -> Vec<String> {
        guard.members().iter().chain([guard]).map(|part| part.node_path().to_owned()).collect()
    };
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Permit) {
        let lock = kind.unlimited(&client);
        let first = lock.acquire().await.unwrap();
        assert_eq!(first.hold_count(), 1, "{kind:?}");
        // Its nodes are watched, and another task waits.
        drop(first.watch_state());
        let waiter = in_task(kind.rival(&client));
        watches_with_holders(&server, kind.nodes() as u64 + 1).await;
        let before = sent().await;
        let second = within(lock.acquire()).await.unwrap();
        let third = lock.try_acquire().await.unwrap().unwrap();
        let last = lock.try_acquire_for(BOUND).await.unwrap().unwrap();
        for again in [&first, &second, &third, &last] {
            assert_eq!((again.hold_count(), again.fencing_token()), (4, first.fencing_token()), "{kind:?}");
            assert_eq!(nodes(again), nodes(&first), "{kind:?}");
        }
        first.release().await.unwrap();
        drop(second);
        third.release().await.unwrap();
        assert_eq!(sent().await, before, "{kind:?}: nothing was sent");
        assert!(lock.is_owned_by(&Owner::current()) && lock.is_acquired_in_this_process(), "{kind:?}");
        assert!(!waiter.is_finished(), "{kind:?}: the last guard still holds");
        last.release().await.unwrap();
        assert!(!lock.is_owned_by(&Owner::current()), "{kind:?}");
        let next = within(waiter).await.unwrap().unwrap();
        assert_eq!(next.hold_count(), 1, "{kind:?}");
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn every_lock_knows_for_whom_it_was_acquired() {
    let (_server, _, [client]) = server_with_clients().await;
    let (owner, other) = (Owner::new(), Owner::new());
    for kind in KINDS {
        let lock = kind.unlimited(&client);
        assert_eq!(lock.paths().last(), Some(&kind.path()), "{kind:?}");
        let guard = within(lock.owned_by(&owner).acquire()).await.unwrap();
        assert!(lock.is_owned_by(&owner) && !lock.is_owned_by(&other), "{kind:?}");
        assert!(!lock.is_owned_by(&Owner::current()) && lock.is_acquired_in_this_process(), "{kind:?}");
        let participants = lock.participants().await.unwrap();
        assert!(participants.iter().all(Participant::is_holder), "{kind:?}: {participants:?}");
        assert_eq!(lock.holder().await.unwrap().as_ref(), participants.first(), "{kind:?}");
        // The owner may enter again, except for permits, which it may have several of.
        let again = within(lock.owned_by(&owner).try_acquire()).await.unwrap();
        assert_eq!(again.is_some(), kind != Kind::Permit, "{kind:?}");
        drop(again);
        let refused = within(lock.owned_by(&other).try_acquire()).await.unwrap();
        assert_eq!(refused.is_some(), kind == Kind::Read, "{kind:?}");
        drop(refused);
        within(guard.release()).await.unwrap();
        assert!(!lock.is_owned_by(&owner) && !lock.is_acquired_in_this_process(), "{kind:?}");
        assert!(lock.path_exists().await.unwrap(), "{kind:?}");
    }
}
