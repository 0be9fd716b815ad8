//! Ten thousand transfers between a hundred accounts, while workers are killed, Redis freezes and the server of the database crashes: each
//! happens once.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use streamfleet::{Producer, Submission};

use harness::fleet::queue;
use harness::nemesis::seed;
use harness::process::Worker;
use harness::redis_server::RedisServer;
use harness::wait::{pause_for, until_async};

use super::transfer::{Bank, Transfer};
use crate::kit::{Hand, Place};

on_all_databases!(alone: each_transfer_happens_once);

const TRANSFERS: i64 = 10_000;
const ACCOUNTS: usize = 100;
const BALANCE: i64 = 1_000;
const WORKERS: usize = 3;
const KILLS: usize = 100;
/// One crash of the database's server, and one freeze of Redis, after this many kills.
const KILLS_PER_CRASH: usize = 20;
const KILLS_PER_FREEZE: usize = 25;
/// The longest pause between two kills.
const PAUSE: Duration = Duration::from_millis(500);
/// How long Redis is frozen: longer than the lease.
const FREEZE: Duration = Duration::from_millis(1500);
/// How long all transfers may take after the last fault.
const SOON: Duration = Duration::from_secs(600);

/// How many transfers have happened.
const DONE: &str = "SELECT COUNT(*) FROM transfers";
const TWICE: &str =
    "SELECT COUNT(*) FROM (SELECT id FROM transfers GROUP BY id HAVING COUNT(*) > 1) AS twice";

async fn each_transfer_happens_once(place: Place) {
    let mut random = StdRng::seed_from_u64(seed());
    let redis = RedisServer::start();
    open_accounts(&place).await;
    let transfers: Vec<Transfer> = (0..TRANSFERS).map(|_| draw(&mut random)).collect();
    let wanted = balances(&transfers);
    let bank = Bank { redis: redis.url(), database: place.url.clone() };
    let launch = bank.launch();
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| launch.start()).collect();
    let producer = Producer::new(queue(&redis).await);
    let jobs = (0..).zip(&transfers).map(|(nth, transfer)| {
        let job = Submission::of(transfer).unwrap();
        job.id(format!("transfer-{nth}").parse().unwrap())
    });
    producer.submit_all(jobs).await.unwrap();
    for kill in 1..=KILLS {
        tokio::task::block_in_place(|| pause_for(random.random_range(Duration::ZERO..PAUSE)));
        let worker = random.random_range(0..WORKERS);
        workers[worker].kill9();
        workers[worker] = launch.start();
        if kill.is_multiple_of(KILLS_PER_CRASH) {
            place.crash().await;
        }
        if kill.is_multiple_of(KILLS_PER_FREEZE) {
            redis.freeze();
            tokio::task::block_in_place(|| pause_for(FREEZE));
            redis.thaw();
        }
    }
    let mut hand = place.hand().await;
    let before = hand.number(DONE).await;
    eprintln!("{before} of {TRANSFERS} transfers had happened at the last of {KILLS} kills");
    until_async("all transfers", SOON, async || hand.number(DONE).await >= TRANSFERS).await;
    harness::fleet::until_empty(&queue(&redis).await).await;
    assert_eq!(hand.number(DONE).await, TRANSFERS);
    assert_eq!(hand.number(TWICE).await, 0);
    for (account, balance) in wanted.into_iter().enumerate() {
        let text = format!("SELECT balance FROM accounts WHERE id = {account}");
        assert_eq!(hand.number(&text).await, balance, "account {account}");
    }
}

async fn open_accounts(place: &Place) {
    place.migrated().await.close().await;
    let mut hand: Hand = place.hand().await;
    hand.run("CREATE TABLE accounts (id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)").await;
    // Without a key, so that nothing but the note of the effect keeps a transfer from happening twice.
    hand.run("CREATE TABLE transfers (id VARCHAR(64) NOT NULL)").await;
    let rows: Vec<String> = (0..ACCOUNTS).map(|account| format!("({account}, {BALANCE})")).collect();
    hand.run(&format!("INSERT INTO accounts (id, balance) VALUES {}", rows.join(", "))).await;
}

fn draw(random: &mut StdRng) -> Transfer {
    let source = random.random_range(0..ACCOUNTS);
    let target = (source + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
    Transfer { source, target, amount: random.random_range(1..100) }
}

/// The balances after all transfers.
fn balances(transfers: &[Transfer]) -> Vec<i64> {
    let mut balances = vec![BALANCE; ACCOUNTS];
    for transfer in transfers {
        balances[transfer.source] -= transfer.amount;
        balances[transfer.target] += transfer.amount;
    }
    balances
}
