//! A disk that is full: writes fail for now, and go on once there is room.

use std::fs;
use std::process::Command;

use streamfleet_domain::job::Envelope;
use streamfleet_sql::history::{Body, Ended, write};
use streamfleet_sql::{Dialect, Trouble};

use crate::kit::{Place, ended, until};

on_all_databases!(a_full_disk_is_transient);

/// Which database a process of [`small_disk_entry`] is about.
const DIALECT: &str = "STREAMFLEET_TEST_DISK";

/// How large the disk is, and how much of it is free at first. A new MariaDB takes about 150 MiB.
const DISK_MIB: u64 = 400;
const FREE_MIB: u64 = 24;

/// Runs the test in a process that has a small disk, which nobody else sees.
async fn a_full_disk_is_transient(place: Place) {
    let folder = tempfile::tempdir().unwrap();
    let isolated = |program: &std::path::Path| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]).arg(program);
        command
    };
    if !isolated("true".as_ref()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this user may not mount a small disk");
        return;
    }
    let mut command = isolated(&std::env::current_exe().unwrap());
    command.args(["disk::small_disk_entry", "--exact", "--nocapture"]);
    command.env(DIALECT, place.dialect.as_str()).env("TMPDIR", folder.path());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Does the work if [`a_full_disk_is_transient`] has started this process; otherwise returns at once.
#[tokio::test]
async fn small_disk_entry() {
    #[expect(clippy::disallowed_methods, reason = "this is how the process learns what to do")]
    let Some(dialect) = std::env::var(DIALECT).ok().and_then(|name| Dialect::named(&name)) else { return };
    let disk = std::env::temp_dir();
    let mount = ["-t", "tmpfs", "-o", &format!("size={DISK_MIB}m,mode=1777"), "small"].map(str::to_owned);
    assert!(Command::new("mount").args(mount).arg(&disk).status().unwrap().success());
    let place = Place::alone(dialect).await;
    let database = place.migrated().await;
    let lives: Vec<Ended> = (0..3000).map(large).collect();
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![0; usize::try_from(free(&disk) - (FREE_MIB << 20)).unwrap()]).unwrap();
    let mut error = None;
    for lives in lives.chunks(100) {
        error = write(&database, lives).await.err();
        if error.is_some() {
            break;
        }
    }
    let error = error.expect("the disk was never full");
    assert!(error.is_transient(), "{error:?}");
    // A PostgreSQL that cannot write its log ends.
    assert!(dialect == Dialect::Postgres || error.trouble() == Some(Trouble::Full), "{error:?}");
    fs::remove_file(&ballast).unwrap();
    place.crash().await;
    until("room", async || write(&database, &lives[..1500]).await.is_ok()).await;
    let mut hand = place.hand().await;
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_jobs").await, 1500);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_bodies").await, 1500);
}

/// A life with about 20 KiB of fields that no database can compress.
fn large(number: u64) -> Ended {
    let mut state = number;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let payload: Vec<u8> = (0..20 << 10).map(|_| byte()).collect();
    let body = Body::Stored(Envelope::new([(b"payload".as_slice(), payload.as_slice())].into_iter()));
    Ended { body, ..ended(number) }
}

/// How many bytes are free.
fn free(disk: &std::path::Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "--block-size=1"]).arg(disk).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap().trim().parse().unwrap()
}
