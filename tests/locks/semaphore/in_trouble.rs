//! Permits on bad days: places that are lost, replies that are lost or late, and numbers that end.

use super::*;

/// Waits until the server has answered what a client sends with two lists: its place at the gate, and what leases there are.
async fn gate_and_leases_are_listed(proxy: &FaultProxy, replies: usize) {
    let mut requests = Vec::new();
    until("the gate and the leases are listed", || {
        requests.extend(proxy.take_requests());
        let lists = requests.iter().filter(|request| **request == Request::GetChildren).count();
        lists == 2 && proxy.replies_seen() >= replies + requests.len()
    })
    .await;
}

/// Nothing is to be answered any more on the connection of a client. Returns how many replies there were.
async fn all_is_answered(proxy: &FaultProxy, client: &Client) -> usize {
    client.zookeeper().await.unwrap().check_stat("/").await.unwrap();
    proxy.take_requests();
    proxy.replies_seen()
}

/// Between its look at what is free and its leases, another has passed the gate.
#[tokio::test]
async fn without_a_place_at_the_gate_no_permit_is_taken() {
    let (server, proxy, zookeeper) = server_with_proxy().await;
    // Long enough for its connection to outlast the silence.
    let patient = Client::builder().session_timeout(secs(30));
    let patient = patient.connect(&proxy.connect_string()).await.unwrap();
    let evicted = semaphore(&patient, 1);
    let other = semaphore(&connect(&server).await, 1);
    evicted.acquire().await.unwrap().release().await.unwrap();
    leases_out(&zookeeper, "", 0).await;
    // The delete of its place at the gate was not waited for.
    let replies = all_is_answered(&proxy, &patient).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiter = acquire_in_task(&evicted, 1);
    gate_and_leases_are_listed(&proxy, replies).await;
    let place = queue_of(&zookeeper, GATE, 1).await.remove(0);
    zookeeper.delete(&format!("{GATE}/{place}"), None).await.unwrap();
    let guard = within(other.acquire()).await.unwrap();
    queue_of(&zookeeper, GATE, 0).await;
    proxy.set_traffic(Traffic::pass());
    let again = queue_of(&zookeeper, GATE, 1).await.remove(0);
    assert!(sequence(&again) > sequence(&place));
    assert!(proxy.take_requests().contains(&Request::Multi), "it has tried");
    let leases = children(&zookeeper, LEASES).await;
    assert_eq!(leases, [guard.node_path().rsplit_once('/').unwrap().1]);
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    release(within(waiter).await.unwrap().unwrap()).await;
    nothing_left(&server, &zookeeper).await;
}

/// There the order takes a question more. Meanwhile the leases may have changed.
#[tokio::test]
async fn past_the_last_number_the_count_is_not_exceeded_either() {
    let (server, proxy, zookeeper, client) = server_behind_proxy().await;
    let semaphore = semaphore(&client, 1);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    leases_out(&zookeeper, "", 0).await;
    let other = format!("{GATE}/_c_other-lock-2147483647");
    zookeeper.create(&other, b"", &anyone(CreateMode::Ephemeral)).await.unwrap();
    let replies = all_is_answered(&proxy, &client).await;
    proxy.set_traffic(Traffic::black_hole_to_client());
    let waiter = acquire_in_task(&semaphore, 1);
    gate_and_leases_are_listed(&proxy, replies).await;
    // The other takes the permit and is gone before anybody asks when it came to the gate.
    let lease = format!("{LEASES}/_c_other-lease-0000000000");
    zookeeper.create(&lease, b"", &anyone(CreateMode::Ephemeral)).await.unwrap();
    zookeeper.delete(&other, None).await.unwrap();
    proxy.set_traffic(Traffic::pass());
    watches_of(&server, 1).await;
    assert_eq!(children(&zookeeper, LEASES).await, ["_c_other-lease-0000000000"]);
    zookeeper.delete(&lease, None).await.unwrap();
    release(within(waiter).await.unwrap().unwrap()).await;
    nothing_left(&server, &zookeeper).await;
}

/// An event may have told of the turn at the gate, and no reply. Then the server of the next connection may be further
/// back than that, and would show leases of the past.
#[tokio::test]
async fn a_count_on_another_connection_than_the_grant_is_preceded_by_a_confirmation() {
    let (server, proxy, zookeeper, late) = server_behind_proxy().await;
    let [holding, next] = connect_many(&server).await;
    let held = semaphore(&holding, 1).acquire().await.unwrap();
    leases_out(&zookeeper, "", 1).await;
    let acquiring = acquire_in_task(&semaphore(&next, 1), 1);
    watches_of(&server, 1).await;
    let waiter = acquire_in_task(&semaphore(&late, 1), 1);
    watches_of(&server, 2).await;
    proxy.take_requests();
    let cut = proxy.intercept(Request::GetChildren, Fate::LoseRequest);
    held.release().await.unwrap();
    let guards = within(acquiring).await.unwrap().unwrap();
    within(cut.happened()).await;
    let mut requests = Vec::new();
    until("it counts on the next connection", || {
        requests.extend(proxy.take_requests());
        requests.iter().filter(|request| **request == Request::GetChildren).count() > 1
    })
    .await;
    let [lost, counted] = [0, 1].map(|nth| {
        let mut counts = requests.iter().enumerate().filter(|(_, request)| **request == Request::GetChildren);
        counts.nth(nth).unwrap().0
    });
    // One is that of the connection itself.
    let confirms = requests[lost + 1..counted].iter().filter(|request| **request == Request::Confirm);
    assert!(confirms.count() > 1, "{requests:?}");
    assert!(!waiter.is_finished());
    release(guards).await;
    release(within(waiter).await.unwrap().unwrap()).await;
    leases_out(&zookeeper, "", 0).await;
}

/// Those behind it in the same client watch nothing but the line, and may want fewer permits than it does.
#[tokio::test]
async fn the_loss_of_the_place_at_the_gate_lets_the_next_one_of_its_client_on() {
    let (server, zookeeper, [holding, waiting]) = server_with_clients().await;
    let held = semaphore(&holding, 2).many(1).unwrap().acquire().await.unwrap().into_permits();
    leases_out(&zookeeper, "", 1).await;
    let ours = semaphore(&waiting, 2);
    let both = acquire_in_task(&ours, 2);
    eventually("it waits for the leases", async || (watches_on_children(&server).await == 1).then_some(()))
        .await;
    let place = queue_of(&zookeeper, GATE, 1).await.remove(0);
    let one = acquire_in_task(&ours, 1);
    queue_of(&zookeeper, GATE, 2).await;
    zookeeper.delete(&format!("{GATE}/{place}"), None).await.unwrap();
    let guards = within(one).await.unwrap().unwrap();
    assert!(!both.is_finished());
    release(guards).await;
    release(held).await;
    release(within(both).await.unwrap().unwrap()).await;
    nothing_left(&server, &zookeeper).await;
}

#[tokio::test]
async fn more_permits_out_than_there_can_be_is_an_error_with_both_numbers() {
    let (server, zookeeper, [many, few]) = server_with_clients().await;
    let (five, one) = (semaphore(&many, 5), semaphore(&few, 1));
    let mut held = five.many(2).unwrap().acquire().await.unwrap().into_permits();
    // One more could be of a client of Curator that waits.
    assert!(one.try_acquire().await.unwrap().is_none());
    held.extend(five.many(3).unwrap().acquire().await.unwrap().into_permits());
    leases_out(&zookeeper, "", 5).await;
    let expected = Error::PermitsDiffer { path: PATH.into(), permits: 1, leases: 5 };
    assert_eq!(one.try_acquire().await.unwrap_err(), expected);
    assert_eq!(within(one.acquire()).await.unwrap_err(), expected);
    assert!(["5", "1", PATH].iter().all(|told| expected.to_string().contains(told)), "{expected}");
    // Nothing stays, and whoever has more may go on.
    leases_out(&zookeeper, "", 5).await;
    // One who waits hears of it, too.
    release(held.split_off(2)).await;
    let waiter = acquire_in_task(&one, 1);
    watches_of(&server, 1).await;
    zookeeper
        .create(&format!("{LEASES}/_c_other-lease-0000000099"), b"", &anyone(CreateMode::Ephemeral))
        .await
        .unwrap();
    let expected = Error::PermitsDiffer { path: PATH.into(), permits: 1, leases: 3 };
    assert_eq!(within(waiter).await.unwrap().unwrap_err(), expected);
    release(held).await;
}
