//! Candidates that have waited for long, and observers that see nothing any more.

use super::prelude::*;

const PATH: &str = "/leaders/a";

#[history]
async fn a_candidate_that_has_waited_for_long_fails_anew(stage: Stage) {
    let [leading, waiting] = stage.clients().await;
    let operator = stage.client(1).await;
    let zookeeper = operator.zookeeper().await.unwrap();
    let first = LeaderLatch::start(&leading, PATH, LeaderOptions::new()).unwrap();
    within(first.await_leadership()).await.unwrap();
    let allow = async |rights| {
        let acl = [Acl::new(rights, AuthId::anyone())];
        zookeeper.set_acl(PATH, &acl, None).await.unwrap();
    };
    allow(Permission::READ | Permission::DELETE | Permission::ADMIN).await;
    let latch = LeaderLatch::start(&waiting, PATH, LeaderOptions::new()).unwrap();
    until(|| latch.health().role == LeaderRole::Failed).await;
    sleep(secs(60)).await;
    allow(Permission::ALL).await;
    until(|| queue(&stage, PATH) == 2).await;
    sleep(secs(400)).await;
    assert_eq!(latch.health().role, LeaderRole::Candidate);
    assert!(latch.health().since.elapsed() > secs(390));
    allow(Permission::READ | Permission::DELETE | Permission::ADMIN).await;
    let own = nodes(stage.servers(), PATH).pop().unwrap();
    assert!(stage.servers().delete(&own));
    until(|| latch.health().role == LeaderRole::Failed).await;
    let since = latch.health().since.elapsed();
    assert!(since < secs(60), "it waited in the queue for 400 s, and has just failed: since {since:?}");
    allow(Permission::ALL).await;
    let start = Instant::now();
    until(|| queue(&stage, PATH) == 2).await;
    assert!(start.elapsed() < secs(1), "it stands again after {:?}", start.elapsed());
}

#[history]
async fn an_observer_whose_connections_break_again_and_again_knows_nothing(stage: Stage) {
    const CONNECTION: Duration = secs(2);
    let (proxy, far, near) =
        stage.far_and_near(|builder| usual(builder).connection_timeout(CONNECTION)).await;
    let latch = LeaderLatch::start(&near, PATH, LeaderOptions::new()).unwrap();
    within(latch.await_leadership()).await.unwrap();
    let mut seen = LeaderObserver::new(&far, PATH).unwrap().watch_leader();
    within(seen.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap();
    let mut lost = 0;
    let breaking = async {
        loop {
            let next = proxy.intercept(Request::GetChildren, Fate::LoseRequest);
            next.happened().await;
            lost += 1;
        }
    };
    let checking = async {
        sleep(ms(1)).await;
        within(latch.close(CloseMode::Silent)).await.unwrap();
        let start = Instant::now();
        let unknown = timeout(secs(120), seen.wait_for(|seen| !matches!(seen, Observation::Leader(_)))).await;
        (start.elapsed(), unknown)
    };
    let (took, unknown) = tokio::select! {
        () = breaking => unreachable!(),
        checked = checking => checked,
    };
    assert!(unknown.is_ok(), "it shows a leader that is gone for {took:?}; {lost} connections were lost");
    assert!(took < CONNECTION + secs(1), "{took:?}");
}

#[history]
async fn an_observer_shows_no_leader_when_its_client_has_ended(stage: Stage) {
    let [watching, leading] = stage.clients().await;
    let latch = LeaderLatch::start(&leading, PATH, LeaderOptions::new()).unwrap();
    within(latch.await_leadership()).await.unwrap();
    let mut seen = LeaderObserver::new(&watching, PATH).unwrap().watch_leader();
    within(seen.wait_for(|seen| matches!(seen, Observation::Leader(_)))).await.unwrap();
    watching.close().await;
    while within(seen.changed()).await.is_some() {}
    assert_eq!(seen.get(), Observation::Unknown(Some(Error::Closed)));
}

/// The work of a selector fails in each term, and the candidate is refused at times.
#[history(false, true)]
async fn failing_work_fails_since_its_first_term(stage: Stage, is_refused_at_times: bool) {
    let [client, operator] = stage.clients().await;
    let zookeeper = operator.zookeeper().await.unwrap();
    for path in ["/leaders", PATH] {
        assert!(stage.servers().create(path, b"", false));
    }
    let selector =
        LeaderSelector::start(&client, PATH, LeaderOptions::new(), move |_leadership| async move {
            sleep(ms(10)).await;
            Err::<(), _>("no disk")
        })
        .unwrap();
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let allow = async |rights| {
            zookeeper.set_acl(PATH, &[Acl::new(rights, AuthId::anyone())], None).await.unwrap();
        };
        if is_refused_at_times {
            allow(Permission::READ | Permission::DELETE | Permission::ADMIN).await;
        }
        sleep(secs(12)).await;
        allow(Permission::ALL).await;
        for _ in 0..1000 {
            let health = selector.health();
            if health.role == LeaderRole::Failed {
                longest = longest.max(health.since.elapsed());
            }
            sleep(ms(20)).await;
        }
    }
    let _ = within(selector.close()).await;
    assert!(longest > secs(200), "{longest:?}");
}
