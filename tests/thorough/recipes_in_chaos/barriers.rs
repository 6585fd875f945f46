//! Rounds of double barriers. Each round has a path of its own, and as many members as the barrier is for.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use zk_recipes::barriers::DoubleBarrier;
use zk_recipes::{Client, Error};

use crate::run::Run;
use crate::trouble::pause;
use crate::{LONGEST_WAIT, clock};

pub(crate) const MEMBERS: usize = 3;

/// Whoever may be left behind, waits for so long for what is on its way.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// What has become of one member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passage {
    /// When it has come, each time: whoever gives up comes again.
    pub(crate) came: Vec<u64>,
    pub(crate) entered: Option<u64>,
    /// When it began to leave.
    pub(crate) leaves: Option<u64>,
    /// When all had left, as it was told.
    pub(crate) left: Option<u64>,
    /// It was told that it was lost, or would not have been told.
    pub(crate) is_lost: bool,
    /// The others were in without it, since its session had ended when they let each other in, or it had given up.
    pub(crate) is_stranded: bool,
    /// Its session had ended since it came. Then it has come again, for which those who leave at that moment do not wait.
    pub(crate) has_changed_session: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) path: String,
    pub(crate) passages: Vec<Passage>,
}

/// All rounds that are over.
#[derive(Debug, Default)]
pub(crate) struct Rounds(pub(crate) Mutex<Vec<Round>>);

/// What the members of a round share.
#[derive(Default)]
struct Together {
    /// How many have left, or do not wait for the others.
    out: AtomicUsize,
    news: Notify,
}

impl Together {
    fn goes(&self) {
        self.out.fetch_add(1, SeqCst);
        self.news.notify_waiters();
    }

    /// Waits until somebody has left: then all have been in, or have been lost.
    async fn is_over(&self) {
        let mut news = std::pin::pin!(self.news.notified());
        news.as_mut().enable();
        if self.out.load(SeqCst) == 0 {
            news.await;
        }
    }
}

/// Plays rounds of one lane, whose members are these clients.
pub(crate) async fn play(
    clients: Vec<Client>,
    root: String,
    name: Arc<str>,
    rounds: Arc<Rounds>,
    run: Arc<Run>,
) {
    let mut number = 0;
    while !run.is_over() {
        number += 1;
        let path = format!("{root}/barriers/{name}-{number}");
        let is_patient = fastrand::u8(..4) != 0;
        let together = Together::default();
        let members = clients.iter().map(|client| {
            let barrier = DoubleBarrier::new(client, &path, MEMBERS).unwrap();
            pass(client, barrier, is_patient, &together)
        });
        let passages = join_all(members).await;
        if passages.iter().all(|passage| passage.left.is_some()) {
            run.succeeded(&name);
        }
        rounds.0.lock().unwrap().push(Round { path, passages });
    }
}

/// Enters, and leaves.
async fn pass(client: &Client, barrier: DoubleBarrier, is_patient: bool, together: &Together) -> Passage {
    let mut passage = Passage::default();
    pause(0..20).await;
    let path = barrier.path().to_owned();
    let session = timeout(LONGEST_WAIT, session_of(client)).await.expect("there is a session");
    let mut gave_up = false;
    let entered = {
        let entering = async {
            loop {
                passage.came.push(clock::now());
                if is_patient || fastrand::bool() {
                    return barrier.enter().await.unwrap_or_else(|error| panic!("{path}: {error}"));
                }
                gave_up = true;
                let patience = Duration::from_millis(fastrand::u64(..100));
                match barrier.enter_within(patience).await {
                    Ok(Some(entered)) => return entered,
                    Ok(None) => pause(0..20).await,
                    Err(error) => panic!("{path}: {error}"),
                }
            }
        };
        // Nothing else excuses it: whoever was not let in was one of those who let each other in.
        let stranded = async {
            together.is_over().await;
            while is_patient && session_of(client).await == session {
                sleep(LAST_WAIT / 10).await;
            }
            sleep(LAST_WAIT).await;
        };
        let mut entering = Box::pin(entering);
        tokio::select! {
            biased;
            entered = &mut entering => Some(entered),
            () = stranded => None,
            () = sleep(LONGEST_WAIT) => {
                let there = client.zookeeper().await.unwrap().list_children(&path).await;
                panic!("{path}: somebody waits for ever to enter, beside {there:?}")
            }
        }
    };
    let Some(entered) = entered else {
        passage.is_stranded = true;
        return passage;
    };
    passage.entered = Some(clock::now());
    let now = timeout(LONGEST_WAIT, session_of(client)).await.expect("there is a session");
    passage.has_changed_session = now != session;
    pause(0..20).await;
    passage.leaves = Some(clock::now());
    if fastrand::u8(..8) == 0 {
        drop(entered);
        passage.is_lost = true;
        together.goes();
        return passage;
    }
    let left = timeout(LONGEST_WAIT, entered.leave()).await;
    match left.unwrap_or_else(|_| panic!("{path}: somebody waits for ever to leave")) {
        Ok(()) => passage.left = Some(clock::now()),
        Err(Error::MemberLost { .. }) => passage.is_lost = true,
        Err(error) => panic!("{path}: {error}"),
    }
    together.goes();
    passage
}

/// It may end at any moment.
async fn session_of(client: &Client) -> i64 {
    loop {
        match client.zookeeper().await {
            Ok(zookeeper) => return zookeeper.session_id().0,
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}
