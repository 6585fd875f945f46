//! Money goes to and fro between accounts, under the locks of both of them:
//! `./zk-docker/with-zookeeper cargo run --example multi_lock`

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zk_recipes::{Client, LockGuard, MultiLock};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const ACCOUNTS: [&str; 3] = ["ann", "bob", "carol"];
/// Of each clerk, who is a client with a session of its own and stands for a process. They go round in circles, and
/// against one another.
const ERRANDS: [(&str, &str); 6] =
    [("ann", "bob"), ("bob", "carol"), ("carol", "ann"), ("bob", "ann"), ("carol", "bob"), ("ann", "carol")];
const TRANSFERS: usize = 20;
const MONEY: i64 = 3000;

#[tokio::main]
async fn main() -> Result<()> {
    let bank = Arc::new(Bank::open());
    work(&bank, false).await?;
    println!("without locks: {MONEY} became {}", bank.money());

    let bank = Arc::new(Bank::open());
    let start = Instant::now();
    // In the order in which each clerk names the accounts they would soon wait for one another in a circle.
    let audits = timeout(Duration::from_secs(30), work(&bank, true)).await.expect("nobody waits for ever")?;
    let transfers = ERRANDS.len() * TRANSFERS;
    let money = bank.money();
    println!("with locks: {MONEY} stayed {money} in {transfers} transfers, {:.1?}", start.elapsed());
    println!("{audits} audits of all accounts in between found the same");
    assert_eq!(money, MONEY);
    assert!(audits > 0);
    Ok(())
}

/// Lets the clerks work, and audits the bank until they are done. Answers how often.
async fn work(bank: &Arc<Bank>, locked: bool) -> Result<usize> {
    let servers = std::env::var("ZK_CONNECT").unwrap_or_else(|_| "127.0.0.1:2181".into());
    let mut clerks = JoinSet::new();
    for (from, to) in ERRANDS {
        let client = Client::connect(&servers).await?;
        let (bank, both) = (bank.clone(), MultiLock::new(&client, [lock_path(from), lock_path(to)])?);
        clerks.spawn(async move {
            for _ in 0..TRANSFERS {
                let guard = if locked { Some(both.acquire().await?) } else { None };
                bank.transfer(fastrand::i64(1..100), from, to, guard.as_ref()).await?;
                if let Some(guard) = guard {
                    guard.release().await?;
                }
            }
            Ok(())
        });
    }
    let client = Client::connect(&servers).await?;
    let all = MultiLock::new(&client, ACCOUNTS.map(lock_path))?;
    let mut audits = 0;
    while locked && !clerks.is_empty() {
        if let Some(guard) = all.try_acquire_for(Duration::from_secs(5)).await? {
            assert_eq!(bank.money(), MONEY, "somebody was seen in the middle of a transfer");
            audits += 1;
            guard.release().await?;
        }
        while let Some(done) = clerks.try_join_next() {
            done??;
        }
    }
    clerks.join_all().await.into_iter().collect::<Result<()>>()?;
    Ok(audits)
}

fn lock_path(account: &str) -> String {
    format!("/examples/multi-lock/{account}")
}

/// Knows nothing of locks, but refuses whoever comes with an older token than the greatest it has seen.
struct Bank(Mutex<BTreeMap<&'static str, Account>>);

#[derive(Clone, Copy)]
struct Account {
    balance: i64,
    token: i64,
}

impl Bank {
    fn open() -> Self {
        let account = Account { balance: MONEY / ACCOUNTS.len() as i64, token: 0 };
        Self(Mutex::new(ACCOUNTS.map(|name| (name, account)).into()))
    }

    fn money(&self) -> i64 {
        self.0.lock().unwrap().values().map(|account| account.balance).sum()
    }

    async fn transfer(&self, amount: i64, from: &str, to: &str, guard: Option<&LockGuard>) -> Result<()> {
        for (name, change) in [(from, -amount), (to, amount)] {
            let Account { balance, token } = self.0.lock().unwrap()[name];
            // Time for others to come in between.
            sleep(Duration::from_millis(1)).await;
            let token = guard.map_or(token, |guard| token_of(name, guard));
            let mut accounts = self.0.lock().unwrap();
            let account = accounts.get_mut(name).unwrap();
            if token < account.token {
                return Err(format!("the lock of {name} was lost to somebody else").into());
            }
            *account = Account { balance: balance + change, token };
        }
        Ok(())
    }
}

/// Of the lock of this account alone: it has grown with each grant of that.
fn token_of(account: &str, guard: &LockGuard) -> i64 {
    let path = lock_path(account) + "/";
    let member = guard.members().iter().find(|member| member.node_path().starts_with(&path));
    member.expect("the account is locked").fencing_token()
}
