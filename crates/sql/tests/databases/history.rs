//! What is written comes back, once.

use streamfleet_domain::job::Envelope;
use streamfleet_sql::history::questions::{LifeKey, job, life};
use streamfleet_sql::history::{Body, Ended, PayloadState, write};
use streamfleet_sql::{Dialect, Error};

use crate::kit::{Hand, Place, ended, queue};

on_all_databases!(
    a_life_comes_back_as_it_was_written,
    a_life_that_is_written_again_changes_nothing,
    texts_that_databases_refuse_are_made_safe,
    a_row_at_fault_is_left_out_and_all_others_are_written,
    more_lives_than_one_transaction_takes_are_written,
    a_life_whose_token_was_drawn_is_found_by_its_creation,
    fields_that_are_large_are_written,
);

async fn a_life_comes_back_as_it_was_written(place: Place) {
    let database = place.migrated().await;
    let wanted = ended(1);
    assert_eq!(write(&database, std::slice::from_ref(&wanted)).await.unwrap().stored, 1);
    let key = LifeKey::of_token(queue(), wanted.life.clone()).unwrap();
    let story = life(&database, &key).await.unwrap().unwrap();
    assert_eq!(story.attempts, wanted.attempted);
    assert_eq!(story.body, wanted.body);
    let row = story.row;
    assert_eq!((&row.queue, &row.life, &row.id), (&wanted.queue, &wanted.life, &wanted.id));
    assert_eq!((&row.job_type, row.lane, row.state), (&wanted.job_type, wanted.lane, wanted.state));
    assert_eq!((row.created_ms, row.ended_ms), (wanted.created_ms, wanted.ended_ms));
    assert_eq!(row.attempts, wanted.attempts);
    assert_eq!((&row.worker, &row.worker_version), (&wanted.worker, &wanted.worker_version));
    assert_eq!((&row.reason, &row.fingerprint), (&wanted.reason, &wanted.fingerprint));
    assert_eq!((&row.error, &row.result), (&wanted.error, &wanted.result));
    assert_eq!(row.root, wanted.root);
    assert_eq!(row.payload_state, PayloadState::Stored);
    assert_eq!(job(&database, &queue(), &wanted.id).await.unwrap(), [row]);
    let unknown = LifeKey::of_token(queue(), "1796083200000-9".parse().unwrap()).unwrap();
    assert_eq!(life(&database, &unknown).await.unwrap(), None);
}

async fn a_life_that_is_written_again_changes_nothing(place: Place) {
    let database = place.migrated().await;
    let lives: Vec<Ended> = (0..20).map(ended).collect();
    write(&database, &lives).await.unwrap();
    let mut changed = lives.clone();
    changed.iter_mut().for_each(|life| life.error = Some("another".to_owned()));
    // Both in one call and in another one.
    changed.extend(lives.clone());
    assert_eq!(write(&database, &changed).await.unwrap().stored, 40);
    let mut hand = place.hand().await;
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_jobs").await, 20);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_jobs WHERE error = 'another'").await, 0);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_attempts").await, 40);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_bodies").await, 20);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_keys").await, 20);
}

async fn texts_that_databases_refuse_are_made_safe(place: Place) {
    let database = place.migrated().await;
    let mut wanted = ended(1);
    wanted.error = Some("a\0b 🚀".to_owned());
    wanted.job_type = "ä".repeat(200);
    wanted.worker = Some("w".repeat(1000));
    wanted.result = Some("x".repeat(65_537));
    wanted.keys[0].value = "🚀".repeat(1000);
    let payload = [0_u8, 255, 254, 0];
    wanted.body = Body::Stored(Envelope::new([(b"payload".as_slice(), payload.as_slice())].into_iter()));
    let written = write(&database, std::slice::from_ref(&wanted)).await.unwrap();
    assert_eq!((written.stored, written.poison), (1, Vec::new()));
    let key = LifeKey::new(queue(), wanted.life.clone(), wanted.created_ms);
    let story = life(&database, &key).await.unwrap().unwrap();
    assert_eq!(story.row.error.as_deref(), Some("a\u{fffd}b 🚀"));
    assert_eq!(story.row.job_type, "ä".repeat(64));
    assert_eq!((story.row.worker.unwrap().len(), story.row.result), (128, None));
    assert_eq!(story.body, wanted.body);
}

/// Makes the database refuse jobs of one type, as a rule that an administrator has added would.
async fn refuse_poison(hand: &mut Hand, dialect: Dialect) {
    let rule = match dialect {
        Dialect::MySql => "ALTER TABLE sf_jobs ADD CONSTRAINT no_poison CHECK (type <> 'poison')",
        Dialect::Postgres => "ALTER TABLE sf_jobs ADD CONSTRAINT no_poison CHECK (type <> 'poison')",
        Dialect::Sqlite => {
            "CREATE TRIGGER no_poison BEFORE INSERT ON sf_jobs WHEN NEW.type = 'poison' \
             BEGIN SELECT RAISE(ABORT, 'no poison'); END"
        }
    };
    hand.run(rule).await;
}

async fn a_row_at_fault_is_left_out_and_all_others_are_written(place: Place) {
    let database = place.migrated().await;
    let mut hand = place.hand().await;
    refuse_poison(&mut hand, place.dialect).await;
    let mut lives: Vec<Ended> = (0..30).map(ended).collect();
    for at in [3, 4, 29] {
        lives[at].job_type = "poison".to_owned();
    }
    let written = write(&database, &lives).await.unwrap();
    assert_eq!(written.stored, 27);
    assert_eq!(written.poison.iter().map(|poison| poison.at).collect::<Vec<_>>(), [3, 4, 29]);
    assert!(written.poison.iter().all(|poison| matches!(poison.error, Error::Poison { .. })));
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_jobs").await, 27);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_bodies").await, 27);
}

async fn more_lives_than_one_transaction_takes_are_written(place: Place) {
    let database = place.migrated().await;
    let lives: Vec<Ended> = (0..1100).rev().map(ended).collect();
    assert_eq!(write(&database, &lives).await.unwrap().stored, 1100);
    assert_eq!(place.hand().await.number("SELECT COUNT(*) FROM sf_attempts").await, 2200);
    assert_eq!(write(&database, &[]).await.unwrap().stored, 0);
}

async fn a_life_whose_token_was_drawn_is_found_by_its_creation(place: Place) {
    let database = place.migrated().await;
    let mut wanted = ended(1);
    wanted.life = "00000000000000000000000012345678".parse().unwrap();
    write(&database, std::slice::from_ref(&wanted)).await.unwrap();
    assert_eq!(LifeKey::of_token(queue(), wanted.life.clone()), None);
    let rows = job(&database, &queue(), &wanted.id).await.unwrap();
    let story = life(&database, &rows[0].key()).await.unwrap().unwrap();
    assert_eq!(story.row.life, wanted.life);
}

async fn fields_that_are_large_are_written(place: Place) {
    let database = place.migrated().await;
    let payload = vec![b'x'; 8 << 20];
    let mut wanted = ended(1);
    wanted.body = Body::Stored(Envelope::new([(b"payload".as_slice(), payload.as_slice())].into_iter()));
    let mut larger = ended(2);
    let payload = vec![b'x'; 10 << 20];
    larger.body = Body::Masked(Envelope::new([(b"payload".as_slice(), payload.as_slice())].into_iter()));
    let written = write(&database, &[wanted.clone(), larger.clone()]).await.unwrap();
    assert_eq!((written.stored, written.poison.len()), (2, 0));
    let story = life(&database, &LifeKey::new(queue(), wanted.life, 0)).await.unwrap().unwrap();
    assert_eq!(story.body, wanted.body);
    let story = life(&database, &LifeKey::new(queue(), larger.life, 0)).await.unwrap().unwrap();
    assert_eq!((story.row.payload_state, story.body), (PayloadState::TooLarge, Body::TooLarge));
}
