//! Programs that run as another user. Only root can do that; for others, the tests print that they did nothing.

use std::os::unix::fs::PermissionsExt;

use rustix::process::{DumpableBehavior, dumpable_behavior, geteuid};

use super::start::unborn;
use super::*;

/// A handler that runs a command as `nobody`, if this process may do that.
fn as_nobody(command: &[&str], group: Option<&str>) -> Option<Exec> {
    if !geteuid().is_root() {
        println!("not root, so no program can run as another user");
        return None;
    }
    Some(exec_with(command, |config| {
        config.user = Some("nobody".to_owned());
        config.group = group.map(str::to_owned);
    }))
}

/// What a program prints about itself: its user, its group, all its groups, its home, its capabilities, the signal that it gets when
/// its worker dies, and whether it may open standard error by its name.
const WHO: &str = r#"
import ctypes, os, pathlib
status = pathlib.Path("/proc/self/status").read_text().splitlines()
rights = {line.split()[1] for line in status if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb"))}
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal))
with open("/dev/stderr", "w") as stderr: stderr.write("it works")
print(os.getresuid(), os.getresgid(), os.getgroups(), os.environ.get("HOME"), rights, signal.value)
"#;

/// What `nobody` prints about itself, if it has this group in place of its own.
fn who(group: Option<u32>) -> String {
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let (user, home) = (nobody.uid, nobody.dir.display());
    let group = group.unwrap_or(nobody.gid.as_raw());
    format!("({user}, {user}, {user}) ({group}, {group}, {group}) [{group}] {home} {{'0000000000000000'}} 9")
}

#[tokio::test]
async fn a_program_is_its_user_in_all_respects_and_dies_with_its_worker_all_the_same() {
    let Some(handler) = as_nobody(&["python3", "-c", WHO], None) else { return };
    let printed = run(&handler, b"", context(&[])).await.unwrap();
    assert_eq!(printed, json!(who(None)));
    // Its start has closed the memory of the worker.
    assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
    let Some(handler) = as_nobody(&["python3", "-c", WHO], Some("4242")) else { return };
    let printed = run(&handler, b"", context(&[])).await.unwrap();
    assert_eq!(printed, json!(who(Some(4242))));
}

#[tokio::test]
async fn the_worker_ends_programs_of_other_users() {
    let Some(handler) = as_nobody(&["sh", "-c", "trap '' TERM; echo $$; sleep 1000"], None) else { return };
    let ended = failure(run(&handler, b"", context_for(Duration::from_millis(500))).await);
    assert!(ended.error.starts_with("stopped because it ran out of time (signal: 9"), "{}", ended.error);
}

/// Stops all other processes of its user, again and again, once it has written its process id.
const STOP_ALL: &str = r#"
import os, signal
open("pid", "w").write(f"{os.getpid()}\n")
while True:
    try: os.kill(-1, signal.SIGSTOP)
    except OSError: pass
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_stopped_is_killed_and_holds_up_no_other_user() {
    if !geteuid().is_root() {
        return println!("not root, so no program can run as another user");
    }
    let directory = TempDir::new().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let as_user = |number: &str, command: &[&str], path: Option<String>| {
        exec_with(command, |config| {
            (config.user, config.group) = (Some(number.to_owned()), Some(number.to_owned()));
            config.directory = Some(directory.path().to_owned());
            config.env = path.map(|path| ("PATH".to_owned(), path)).into_iter().collect();
        })
    };
    let stopper = as_user("54323", &["python3", "-c", STOP_ALL], None);
    // It is looked for in so many places that it is stopped meanwhile.
    let stopped = as_user("54323", &["no-such-program"], Some("/a:".repeat(40_000)));
    let others = [as_user("54324", &["true"], None), exec(&["true"])];
    let checks = async {
        written_pid(&directory.path().join("pid")).await;
        let others_start = async {
            until("a start is stopped", || (unborn('T') > 0).then_some(())).await;
            for other in &others {
                assert_eq!(run(other, b"", context(&[])).await, Ok(Value::Null));
            }
            assert!(unborn('T') > 0, "they did not wait for it");
        };
        let ended = run(&stopped, b"", context_for(3 * PATIENCE));
        let (ended, ()) = tokio::join!(ended, others_start);
        let killed = failure(ended);
        assert_eq!((killed.kind, killed.error.as_str()), (FailureKind::Unknown, "signal: 9 (SIGKILL)"));
    };
    tokio::select! {
        ended = run(&stopper, b"", context_for(3 * PATIENCE)) => panic!("ended: {ended:?}"),
        () = checks => {}
    }
}

#[tokio::test]
async fn what_its_user_must_not_enter_or_run_is_an_error_of_the_start() {
    let directory = TempDir::new().unwrap();
    let (program, folder) = (directory.path().join("hello"), directory.path().to_str().unwrap());
    std::fs::write(&program, "#!/bin/sh\necho hello").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let Some(handler) = as_nobody(&[program.to_str().unwrap()], None) else { return };
    let refused = failure(run(&handler, b"", context(&[])).await);
    assert!(refused.error.contains("cannot be started: Permission denied"), "{}", refused.error);
    let handler = exec_with(&["true"], |config| {
        config.user = Some("nobody".to_owned());
        config.directory = Some(directory.path().to_owned());
    });
    let refused = failure(run(&handler, b"", context(&[])).await);
    assert!(
        refused.error.contains(&format!("cannot be started in {folder}: Permission denied")),
        "{}",
        refused.error
    );
}

#[test]
fn a_user_that_nobody_knows_and_a_group_without_one_are_refused_at_once() {
    let config = ExecConfig::new(["true"]).user("no-such-user");
    let refused = Exec::new(config).err().unwrap().to_string();
    assert!(refused.ends_with(r#"exec.user: this machine knows no user "no-such-user""#), "{refused}");
    let config = ExecConfig::new(["true"]).group("daemon");
    assert_eq!(config.validate(), ["exec.group: has no effect without user"]);
}
