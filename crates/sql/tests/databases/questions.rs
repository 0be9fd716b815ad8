//! Questions find what they ask for, page by page, and use indexes.

use streamfleet_domain::job::{Envelope, JobId};
use streamfleet_sql::history::partitions::prepare;
use streamfleet_sql::history::questions::{
    Asked, Cursor, Filter, LifeKey, Row, bodies, job, jobs, last_ends, plans, stats,
};
use streamfleet_sql::history::{Body, Day, Ended, Ending, Key, write};
use streamfleet_sql::{Database, Dialect, Error, Options};

use crate::kit::{MS, Place, ended, queue};

const DAY_MS: u64 = 86_400_000;

on_all_databases!(
    pages_have_every_life_once_and_the_latest_first,
    conditions_are_combined,
    a_field_of_the_payload_finds_its_jobs,
    all_lives_of_an_id_are_found,
    the_fields_of_many_lives_come_in_bounded_portions,
    the_last_end_of_each_id_is_found,
    lives_are_counted_by_type_and_state,
    counts_are_bounded,
    no_question_reads_a_whole_table,
    what_is_asked_is_bounded,
    a_reading_connection_cannot_write,
);

/// Returns 300 lives of 3 types and 3 states, on 3 days, 3 at a time in one millisecond.
fn lives() -> Vec<Ended> {
    let made = (0..300_u64).map(|number| {
        let mut life = ended(number);
        let began = MS + number % 3 * DAY_MS + number;
        life.life = format!("{began}-{number}").parse().unwrap();
        life.created_ms = began;
        life.ended_ms = MS + 3 * DAY_MS + number / 3;
        life.job_type = format!("type{}", number / 7 % 3);
        life.state = Ending::ALL[usize::try_from(number % 3).unwrap()];
        life.fingerprint = (number % 2 == 0).then(|| format!("f{}", number % 4));
        life.worker_version = Some(format!("v{}", number % 5));
        life
    });
    made.collect()
}

async fn filled(place: &Place) -> (Database, Vec<Ended>) {
    let database = place.migrated().await;
    prepare(&database, Day::of_ms(MS)).await.unwrap();
    let lives = lives();
    write(&database, &lives).await.unwrap();
    (database, lives)
}

/// Reads all pages.
async fn all(database: &Database, filter: &Filter, limit: usize) -> Vec<Row> {
    let (mut rows, mut after): (Vec<Row>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = jobs(database, filter, after.as_ref(), limit).await.unwrap();
        assert!(page.rows.len() <= limit);
        rows.extend(page.rows);
        match page.next {
            Some(next) => after = Some(next.to_string().parse().unwrap()),
            None => return rows,
        }
    }
}

/// Asserts that pages have exactly these lives, in their order.
async fn assert_finds(database: &Database, filter: &Filter, mut wanted: Vec<&Ended>) {
    wanted.sort_by_key(|life| std::cmp::Reverse((life.ended_ms, life.life.to_string())));
    let wanted: Vec<String> = wanted.iter().map(|life| life.life.to_string()).collect();
    assert!(!wanted.is_empty());
    let found = all(database, filter, 17).await;
    assert_eq!(found.iter().map(|row| row.life.to_string()).collect::<Vec<_>>(), wanted, "{filter:?}");
}

async fn pages_have_every_life_once_and_the_latest_first(place: Place) {
    let (database, lives) = filled(&place).await;
    assert_finds(&database, &Filter::of(queue()), lives.iter().collect()).await;
    let other = Filter::of("other".parse().unwrap());
    assert!(all(&database, &other, 10).await.is_empty());
}

async fn conditions_are_combined(place: Place) {
    let (database, lives) = filled(&place).await;
    let every = |condition: &dyn Fn(&Ended) -> bool| -> Vec<&Ended> {
        lives.iter().filter(|life| condition(life)).collect()
    };
    let mut filter = Filter::of(queue());
    filter.states = vec![Ending::Dead, Ending::Done];
    assert_finds(&database, &filter, every(&|life| life.state != Ending::Cancelled)).await;
    filter.types = vec!["type1".to_owned(), "type2".to_owned(), "type1".to_owned()];
    let is_of = |life: &Ended| life.state != Ending::Cancelled && life.job_type != "type0";
    assert_finds(&database, &filter, every(&is_of)).await;
    filter.worker_version = Some("v3".to_owned());
    let is_of = |life: &Ended| is_of(life) && life.worker_version.as_deref() == Some("v3");
    assert_finds(&database, &filter, every(&is_of)).await;
    let mut filter = Filter::of(queue());
    filter.fingerprint = Some("f2".to_owned());
    assert_finds(&database, &filter, every(&|life| life.fingerprint.as_deref() == Some("f2"))).await;
    let (from, to) = (MS + 3 * DAY_MS + 20, MS + 3 * DAY_MS + 70);
    (filter.from_ms, filter.to_ms) = (Some(from), Some(to));
    let is_of =
        |life: &Ended| life.fingerprint.as_deref() == Some("f2") && (from..to).contains(&life.ended_ms);
    assert_finds(&database, &filter, every(&is_of)).await;
    let mut filter = Filter::of(queue());
    filter.id = Some("order-7".parse().unwrap());
    assert_finds(&database, &filter, every(&|life| life.id.to_string() == "order-7")).await;
}

async fn a_field_of_the_payload_finds_its_jobs(place: Place) {
    let (database, lives) = filled(&place).await;
    let mut filter = Filter::of(queue());
    filter.key = Some(Key { name: "customer".to_owned(), value: "9".to_owned() });
    let mut wanted: Vec<&Ended> = lives.iter().filter(|life| life.keys[0].value == "9").collect();
    wanted.sort_by_key(|life| std::cmp::Reverse((life.day(), life.life.to_string())));
    let names = |lives: &[&Ended]| lives.iter().map(|life| life.life.to_string()).collect::<Vec<_>>();
    let found = |rows: Vec<Row>| rows.iter().map(|row| row.life.to_string()).collect::<Vec<_>>();
    assert_eq!(wanted.len(), 30);
    assert_eq!(found(all(&database, &filter, 7).await), names(&wanted));
    filter.states = vec![Ending::Dead];
    filter.to_ms = Some(MS + 3 * DAY_MS + 50);
    wanted.retain(|life| life.state == Ending::Dead && life.ended_ms < MS + 3 * DAY_MS + 50);
    assert!(!wanted.is_empty());
    assert_eq!(found(all(&database, &filter, 3).await), names(&wanted));
    filter.key = Some(Key { name: "customer".to_owned(), value: "none".to_owned() });
    assert!(all(&database, &filter, 3).await.is_empty());
}

async fn all_lives_of_an_id_are_found(place: Place) {
    let database = place.migrated().await;
    let mut lives: Vec<Ended> = (0..3).map(ended).collect();
    lives.iter_mut().for_each(|life| life.id = "order".parse().unwrap());
    write(&database, &lives).await.unwrap();
    let rows = job(&database, &queue(), &"order".parse().unwrap()).await.unwrap();
    let wanted: Vec<_> = lives.iter().rev().map(|life| &life.life).collect();
    assert_eq!(rows.iter().map(|row| &row.life).collect::<Vec<_>>(), wanted);
    assert!(job(&database, &queue(), &"ORDER".parse().unwrap()).await.unwrap().is_empty());
}

async fn the_fields_of_many_lives_come_in_bounded_portions(place: Place) {
    let database = place.migrated().await;
    prepare(&database, Day::of_ms(MS)).await.unwrap();
    let sized = |number: u64, size: usize| {
        let mut life = lives().remove(usize::try_from(number).unwrap());
        let payload = vec![b'x'; size];
        life.body = Body::Stored(Envelope::new([(b"payload".as_slice(), payload.as_slice())].into_iter()));
        life
    };
    let sizes = [8 << 20, 3 << 20, 4 << 20, 2 << 20, 0, 10];
    let mut written: Vec<Ended> =
        (0..6).map(|number| sized(number, sizes[usize::try_from(number).unwrap()])).collect();
    written[4].body = Body::None;
    write(&database, &written).await.unwrap();
    let rows = all(&database, &Filter::of(queue()), 500).await;
    let (mut rest, mut counts, mut found) = (rows.as_slice(), Vec::new(), Vec::new());
    while !rest.is_empty() {
        let read = bodies(&database, rest).await.unwrap();
        counts.push(read.len());
        rest = &rest[read.len()..];
        found.extend(read);
    }
    assert!(counts.len() > 2 && counts.iter().all(|count| *count > 0), "{counts:?}");
    for (row, body) in rows.iter().zip(&found) {
        let wanted = written.iter().find(|life| life.life == row.life).unwrap();
        assert!(*body == wanted.body, "{}", row.life);
    }
    assert!(bodies(&database, &[]).await.unwrap().is_empty());
}

async fn the_last_end_of_each_id_is_found(place: Place) {
    let database = place.migrated().await;
    let mut lives: Vec<Ended> = (0..3).map(ended).collect();
    lives[1].id = lives[0].id.clone();
    write(&database, &lives).await.unwrap();
    let unknown: JobId = "unknown".parse().unwrap();
    let ids = [&lives[0].id, &lives[2].id, &unknown];
    let found = last_ends(&database, &queue(), &ids).await.unwrap();
    assert_eq!((found[ids[0]], found[ids[1]], found.len()), (lives[1].ended_ms, lives[2].ended_ms, 2));
}

async fn lives_are_counted_by_type_and_state(place: Place) {
    let (database, lives) = filled(&place).await;
    let (from, to) = (MS + 3 * DAY_MS + 10, MS + 3 * DAY_MS + 90);
    let stats = stats(&database, &queue(), from, to).await.unwrap();
    assert!(stats.is_complete);
    assert_eq!(stats.counts.len(), 9);
    for count in &stats.counts {
        let is_of = |life: &&Ended| life.state == count.state && life.job_type == count.job_type;
        let wanted = lives.iter().filter(is_of).filter(|life| (from..to).contains(&life.ended_ms)).count();
        assert_eq!(count.count, u64::try_from(wanted).unwrap(), "{count:?}");
    }
}

async fn counts_are_bounded(place: Place) {
    let database = place.migrated().await;
    let lives: Vec<Ended> = (0..10_001)
        .map(|number| {
            let life = ended(number);
            let job_type = if number == 0 { "oldest" } else { "t" }.to_owned();
            Ended { job_type, body: Body::None, attempted: Vec::new(), keys: Vec::new(), ..life }
        })
        .collect();
    write(&database, &lives).await.unwrap();
    let stats = stats(&database, &queue(), MS, MS + DAY_MS).await.unwrap();
    let counted: Vec<_> = stats.counts.iter().map(|count| (count.job_type.as_str(), count.count)).collect();
    assert_eq!((counted, stats.is_complete), (vec![("t", 10_000)], false));
}

/// Asserts that a plan looks up rows by an index, and, if it must be in order, sorts nothing.
fn assert_uses_index(dialect: Dialect, plan: &str, may_sort: bool) {
    let scans: &[&str] = match dialect {
        Dialect::MySql => &["\"access_type\": \"ALL\"", "\"access_type\": \"index\""],
        Dialect::Postgres => &["Seq Scan"],
        Dialect::Sqlite => &["SCAN sf_", "SCAN j", "SCAN o"],
    };
    let sorts: &[&str] = match dialect {
        Dialect::MySql => &["filesort"],
        Dialect::Postgres => &["Sort (cost"],
        Dialect::Sqlite => &["USE TEMP B-TREE"],
    };
    // A derived table of at most one page is read as a whole.
    let derived = plan.split_whitespace().collect::<Vec<_>>().join(" ");
    let derived = derived.replace("\"table_name\": \"<derived2>\", \"access_type\": \"ALL\"", "");
    assert!(scans.iter().all(|scan| !derived.contains(scan)), "it scans: {plan}");
    assert!(may_sort || sorts.iter().all(|sort| !derived.contains(sort)), "it sorts: {plan}");
}

async fn no_question_reads_a_whole_table(place: Place) {
    let (database, lives) = filled(&place).await;
    let cursor: Cursor = format!("{}~{}", lives[50].ended_ms, lives[50].life).parse().unwrap();
    let mut filters = vec![Filter::of(queue()); 5];
    filters[1].types = vec!["type1".to_owned(), "type2".to_owned()];
    filters[1].worker_version = Some("v1".to_owned());
    filters[2].fingerprint = Some("f2".to_owned());
    filters[2].from_ms = Some(MS);
    filters[3].states = vec![Ending::Dead];
    filters[3].to_ms = Some(MS + 9 * DAY_MS);
    filters[4].id = Some("order-7".parse().unwrap());
    for filter in &filters {
        for after in [None, Some(&cursor)] {
            let plans = plans(&database, Asked::Jobs(filter, after)).await.unwrap();
            plans.iter().for_each(|plan| assert_uses_index(place.dialect, plan, filter.id.is_some()));
        }
    }
    filters[0].key = Some(Key { name: "customer".to_owned(), value: "9".to_owned() });
    let (id, key): (JobId, _) =
        ("order-7".parse().unwrap(), LifeKey::of_token(queue(), lives[0].life.clone()).unwrap());
    let rows = jobs(&database, &Filter::of(queue()), None, 100).await.unwrap().rows;
    let queue = queue();
    let ids = [&id];
    let asked = [
        Asked::Jobs(&filters[0], None),
        Asked::Jobs(&filters[0], Some(&cursor)),
        Asked::Job(&queue, &id),
        Asked::Life(&key),
        Asked::Bodies(&rows),
        Asked::LastEnds(&queue, &ids),
        Asked::Stats(&queue),
    ];
    for asked in asked {
        for plan in plans(&database, asked).await.unwrap() {
            assert_uses_index(place.dialect, &plan, true);
        }
    }
}

async fn what_is_asked_is_bounded(place: Place) {
    let database = place.migrated().await;
    let mut filter = Filter::of(queue());
    assert!(matches!(jobs(&database, &filter, None, 501).await, Err(Error::Input(_))));
    filter.types = vec!["t".to_owned(); 17];
    assert!(matches!(jobs(&database, &filter, None, 1).await, Err(Error::Input(_))));
}

async fn a_reading_connection_cannot_write(place: Place) {
    let (_database, lives) = filled(&place).await;
    let reading = place.open_with(Options::reading()).await;
    assert_eq!(jobs(&reading, &Filter::of(queue()), None, 5).await.unwrap().rows.len(), 5);
    let error = write(&reading, &lives[..1]).await.unwrap_err();
    assert_eq!(error.trouble(), Some(streamfleet_sql::Trouble::ReadOnly), "{error:?}");
}
