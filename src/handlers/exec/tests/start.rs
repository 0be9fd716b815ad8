//! How programs start: where they are looked for, what they inherit, and what remains of starts that fail.

use std::fs::{self, File, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use tokio::task::JoinSet;

use super::*;

/// Writes a file with these permissions.
fn file(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs `command` in `directory` with this `PATH`.
async fn on_path(directory: &TempDir, path: &str, command: &[&str]) -> Result<Value, String> {
    let handler = exec_with(command, |config| {
        config.directory = Some(directory.path().to_owned());
        config.env = [("PATH".to_owned(), path.to_owned())].into();
    });
    run(&handler, b"", context(&[])).await.map_err(|outcome| failure(Err(outcome)).error)
}

/// A directory with programs and with files that are none.
fn programs() -> TempDir {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    for folder in ["denied", "first", "second", "folder"] {
        fs::create_dir(at(folder)).unwrap();
    }
    file(&at("denied/hello"), "#!/bin/sh\necho denied", 0o644);
    file(&at("first/hello"), "#!/bin/sh\necho first", 0o755);
    file(&at("second/hello"), "#!/bin/sh\necho second", 0o755);
    file(&at("hello"), "#!/bin/sh\necho here", 0o755);
    file(&at("plain"), "echo \"$0 $#: $1 $2\"", 0o755);
    file(&at("orphan"), "#!/no/such/interpreter\n", 0o755);
    directory
}

#[tokio::test]
async fn a_program_is_looked_for_on_its_own_path() {
    let directory = programs();
    let root = directory.path().display();
    let hello = async |path: &str| on_path(&directory, path, &["hello"]).await;
    assert_eq!(hello(&format!("{root}/first:{root}/second")).await, Ok(json!("first")));
    let before = format!("{root}/none:{root}/plain:{root}/denied:{root}/second:{root}/first");
    assert_eq!(hello(&before).await, Ok(json!("second")), "others do not end the search");
    for here in ["", ":/bin", "/bin::/usr/bin", "/bin:"] {
        assert_eq!(hello(here).await, Ok(json!("here")), "{here:?} has the directory of the program");
    }
    assert_eq!(hello("first").await, Ok(json!("first")), "a relative path");
    let error = hello(&format!("{root}/denied:/bin")).await.unwrap_err();
    assert!(error.ends_with("Permission denied (os error 13)"), "{error}");
    let error = hello("/bin").await.unwrap_err();
    assert!(error.ends_with("No such file or directory (os error 2)"), "{error}");
}

#[tokio::test]
async fn a_path_that_is_no_program_has_the_error_of_the_system() {
    let directory = programs();
    let errors = [
        ("./none", "No such file or directory (os error 2)"),
        ("./plain/none", "Not a directory (os error 20)"),
        ("./folder", "Permission denied (os error 13)"),
        ("denied/hello", "Permission denied (os error 13)"),
        ("./orphan", "No such file or directory (os error 2)"),
    ];
    for (path, want) in errors {
        let error = on_path(&directory, "/bin", &[path]).await.unwrap_err();
        assert!(error.starts_with(&format!("the program {path:?} cannot be started in ")), "{error}");
        assert!(error.ends_with(want), "{error}");
    }
    let long = "x".repeat(200_000);
    let error = on_path(&directory, "/bin", &["true", &long]).await.unwrap_err();
    assert!(error.ends_with("Argument list too long (os error 7)"), "{error}");
}

#[tokio::test]
async fn a_script_that_names_no_interpreter_runs_in_a_shell() {
    let directory = programs();
    let plain = on_path(&directory, "/bin", &["./plain", "a b", ""]).await;
    assert_eq!(plain, Ok(json!("./plain 2: a b ")));
    let root = directory.path().display().to_string();
    assert_eq!(on_path(&directory, &root, &["plain"]).await, Ok(json!(format!("{root}/plain 0:  "))));
    let many: Vec<&str> = ["./plain"].into_iter().chain(std::iter::repeat_n("x", 100_000)).collect();
    assert_eq!(on_path(&directory, "/bin", &many).await, Ok(json!("./plain 100000: x x")));
}

#[tokio::test]
async fn a_program_gets_a_megabyte_of_environment() {
    let value = "x".repeat(100_000);
    let handler = exec_with(&["sh", "-c", "echo $BIG_0$BIG_9 | wc -c"], |config| {
        config.env = (0..10).map(|number| (format!("BIG_{number}"), value.clone())).collect();
    });
    assert_eq!(run(&handler, b"", context(&[])).await, Ok(json!(200_001)));
}

/// Returns the sets of blocked, ignored and caught signals of a process, from its `/proc/…/status`.
fn signal_sets(status: &str) -> [u64; 3] {
    ["SigBlk:", "SigIgn:", "SigCgt:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    })
}

#[tokio::test]
async fn a_program_starts_with_the_default_signals() {
    let [_, ignored, caught] = signal_sets(&fs::read_to_string("/proc/self/status").unwrap());
    let broken_pipe = 1 << (Signal::PIPE.as_raw() - 1);
    assert!(ignored & broken_pipe != 0 && caught != 0, "these tests would prove nothing");
    let status = run(&exec(&["cat", "/proc/self/status"]), b"", context(&[])).await.unwrap();
    // A signal that `nohup` ignores stays ignored.
    assert_eq!(signal_sets(status.as_str().unwrap()), [0, ignored & !broken_pipe, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_others_open_meanwhile_are_not_inherited() {
    let (stop, stopped) = mpsc::channel::<()>();
    let others = thread::spawn(move || {
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            drop((File::open("/dev/null"), io::pipe(), UdpSocket::bind("127.0.0.1:0")));
            thread::yield_now();
        }
    });
    let listing = exec(&["sh", "-c", "ls /proc/$$/fd"]);
    for _ in 0..20 {
        assert_eq!(run(&listing, b"", context(&[])).await, Ok(json!("0\n1\n2")));
    }
    drop(stop);
    others.join().unwrap();
}

/// Returns how many children of this process are no program and have this state, such as `Z` if they have ended and are not reaped.
pub(super) fn unborn(state: char) -> usize {
    let own = format!("(exec-spawner) {state} {} ", std::process::id());
    let stats = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let stat = fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        stat.split_once(' ').map(|(_, rest)| rest.starts_with(&own))
    });
    stats.filter(|is_unborn| *is_unborn).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_starts_at_once_leave_no_zombie() {
    let mut starts = JoinSet::new();
    for number in 0..200 {
        starts.spawn(async move {
            let command = [exec(&["true"]), exec(&["sleep", "1000"]), exec(&["no-such-program"])];
            let command = command[number % 3].invocation(&context(&[]));
            let child = Child::start(command, Bytes::new()).await.ok()?;
            let pid = child.pid();
            if number % 3 == 0 {
                let ended = child.run(std::future::pending(), Duration::ZERO, (0, |_: &[u8]| {})).await;
                assert!(ended.unwrap().status.success());
            }
            Some(pid) // a child that still sleeps is dropped here
        });
    }
    // All at once, they take a while on a busy machine.
    let started = tokio::time::timeout(6 * PATIENCE, starts.join_all()).await.unwrap();
    let pids: Vec<Pid> = started.into_iter().flatten().collect();
    assert_eq!(pids.len(), 134);
    let remain = || pids.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists());
    until("all are reaped", || (!remain() && unborn('Z') == 0).then_some(())).await;
}
