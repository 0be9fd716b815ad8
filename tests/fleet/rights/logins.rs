//! A server with the shipped logins, each with its own password, created by the shipped script.

use std::fs;
use std::path::Path;
use std::process::Command;

use redis::{Connection, Value};
use tempfile::TempDir;

use harness::process::{Launch, Output};
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::server_program;

/// Every login, in the order of the file.
pub(super) const LOGINS: [&str; 8] =
    ["worker", "operator", "console", "submitter", "producer", "monitor", "viewer", "admin"];

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/redis");

/// A server that runs with the files of `deploy/redis`.
pub(super) struct Site {
    pub(super) server: RedisServer,
    folder: TempDir,
}

impl Site {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        make_passwords(folder.path());
        let users = fs::read_to_string(folder.path().join("users.acl")).unwrap();
        let conf = Path::new(FOLDER).join("redis.conf");
        let server = RedisServer::builder().users_acl(&users).file(conf).start();
        Self { server, folder }
    }

    pub(super) fn password(&self, login: &str) -> String {
        fs::read_to_string(self.folder.path().join(login)).unwrap()
    }

    /// Returns the address with this login.
    pub(super) fn url(&self, login: &str) -> String {
        format!("redis://{login}:{}@{}/0", self.password(login), self.server.addr())
    }

    /// Returns a connection with this login.
    pub(super) fn connect(&self, login: &str) -> Connection {
        let connection =
            redis::Client::open(self.url(login)).unwrap().get_connection_with_timeout(SOON).unwrap();
        connection.set_read_timeout(Some(SOON)).unwrap();
        connection
    }

    /// Runs a command of the program with this login. It must exit with 0.
    pub(super) fn run(&self, login: &str, args: &[&str]) -> Output {
        self.run_with(login, args, "")
    }

    /// Runs a command with this text on stdin.
    pub(super) fn run_with(&self, login: &str, args: &[&str], stdin: &str) -> Output {
        let launch = Launch::new(args).env("STREAMFLEET__REDIS__URL", self.url(login)).stdin(stdin);
        let output = launch.output(SOON);
        assert_eq!(output.code, Some(0), "{login}: {args:?}: {output:?}");
        output
    }

    /// Runs a command that Redis must refuse because the login lacks a right.
    pub(super) fn refuses(&self, login: &str, args: &[&str]) {
        let output = Launch::new(args).env("STREAMFLEET__REDIS__URL", self.url(login)).output(SOON);
        let refused = output.code == Some(3) && output.stderr.contains("permission");
        assert!(refused, "{login}: {args:?}: {output:?}");
    }

    /// Panics if Redis has refused anything so far, even if the client ignored it. Only `check` asks for settings of the server, which
    /// no login of the fleet may read.
    pub(super) fn nothing_was_refused(&self) {
        let Value::Array(refused) = self.server.cmd(&["ACL", "LOG"]) else { panic!("no list") };
        let others: Vec<_> =
            refused.iter().filter(|one| !format!("{one:?}").contains("config|get")).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

fn make_passwords(folder: &Path) {
    let made = Command::new(Path::new(FOLDER).join("passwords.sh")).arg(folder).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn the_shipped_file_is_rejected_until_it_has_passwords() {
    let shipped = Path::new(FOLDER).join("users.acl");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let args =
        ["--port", "0", "--unixsocket", socket.to_str().unwrap(), "--aclfile", shipped.to_str().unwrap()];
    let output = Launch::program(server_program::path(), &args).output(SOON);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("The password hash must be exactly 64 characters"), "{output:?}");
    let users = fs::read_to_string(shipped).unwrap();
    let named: Vec<_> = users.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(named[0], "default");
    assert_eq!(named[1..], LOGINS);
    assert!(!users.contains("nopass") && !users.contains(" >"), "{users}");
}

#[test]
fn the_console_has_the_rights_of_an_operator_and_the_sessions_besides() {
    let users = fs::read_to_string(Path::new(FOLDER).join("users.acl")).unwrap();
    let rules = |login: &str| {
        let line = users.lines().find(|line| line.split(' ').nth(1) == Some(login)).unwrap();
        line.split_once(" resetkeys ").unwrap().1
    };
    assert_eq!(rules("console").replacen(" ~sf:console:*", "", 1), rules("operator"));
}

#[test]
fn passwords_are_unique_and_kept_when_the_script_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    make_passwords(folder.path());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (users, worker) = (read("users.acl"), read("worker"));
    assert_eq!(worker.len(), 64);
    assert_ne!(worker, read("operator"));
    fs::remove_file(folder.path().join("monitor")).unwrap();
    make_passwords(folder.path());
    assert_eq!(read("worker"), worker);
    let changed = read("users.acl").lines().zip(users.lines()).filter(|(new, old)| new != old).count();
    assert_eq!(changed, 1);
}

#[test]
fn a_login_without_a_name_or_with_a_wrong_password_fails() {
    let site = Site::new();
    for url in [
        format!("redis://{}/0", site.server.addr()),
        format!("redis://:x@{}/0", site.server.addr()),
        format!("redis://worker:{}@{}/0", site.password("monitor"), site.server.addr()),
        format!("redis://worker:SHA-256-of-worker@{}/0", site.server.addr()),
    ] {
        let opened = redis::Client::open(url.clone()).unwrap().get_connection_with_timeout(SOON);
        let asked = opened.and_then(|mut connection| redis::cmd("PING").query::<String>(&mut connection));
        let error = asked.expect_err(&url).to_string();
        assert!(
            error.contains("NOAUTH") || error.contains("AuthenticationFailed") || error.contains("WRONGPASS"),
            "{error}"
        );
    }
}
