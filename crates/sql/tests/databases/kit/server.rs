//! Private servers, started by the first test that needs one. A shell holds each: when the test process ends, however it does,
//! the shell reads the end of its input, ends the server by its pid, and removes its folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{Connection as _, Executor as _};
use tokio::sync::OnceCell;

/// Starts a server, and ends it when the input ends. A line of input ends it, too, and keeps its data.
const HOLD: &str = r#"signal=$1; folder=$2; shift 2; "$@" </dev/null >>"$folder/log" 2>&1 & pid=$!; read -r line; kept=$?; kill "-$signal" $pid; wait $pid; [ $kept = 0 ] || rm -rf "$folder""#;

static MARIADB: OnceCell<Server> = OnceCell::const_new();
static POSTGRES: OnceCell<Server> = OnceCell::const_new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Server {
    /// Addresses of databases, up to the name, and what follows it.
    before: String,
    after: String,
    is_mysql: bool,
    folder: PathBuf,
    /// What starts the server.
    pub(super) command: Mutex<Command>,
    /// What holds it. Its input ends with this process.
    pub(crate) shell: Mutex<Child>,
}

pub(crate) async fn mariadb() -> &'static Server {
    MARIADB.get_or_init(start_mariadb).await
}

pub(crate) async fn postgres() -> &'static Server {
    POSTGRES.get_or_init(start_postgres).await
}

impl Server {
    /// Makes an empty database, and returns its address.
    pub(crate) async fn create(&self) -> String {
        let name = format!("test{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let create = sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}")));
        if self.is_mysql {
            let mut connection = sqlx::MySqlConnection::connect(&self.address("mysql")).await.unwrap();
            connection.execute(create).await.unwrap();
        } else {
            let mut connection = sqlx::PgConnection::connect(&self.address("postgres")).await.unwrap();
            connection.execute(create).await.unwrap();
        }
        self.address(&name)
    }

    fn address(&self, name: &str) -> String {
        format!("{}{name}{}", self.before, self.after)
    }

    /// Waits until it answers.
    pub(super) async fn ready(&self) {
        let end = std::time::Instant::now() + super::PATIENCE;
        loop {
            let connected = if self.is_mysql {
                sqlx::MySqlConnection::connect(&self.address("mysql")).await.map(drop)
            } else {
                sqlx::PgConnection::connect(&self.address("postgres")).await.map(drop)
            };
            let Err(error) = connected else { return };
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(std::time::Instant::now() < end, "the server does not answer: {error}\n{}", log());
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

/// Starts a server that nobody else has.
pub(crate) async fn start_mariadb() -> Server {
    let folder = folder();
    let program = find("mariadbd", "mariadb-server", &["/usr/sbin", "/usr/libexec"]);
    let install = find("mariadb-install-db", "mariadb-server", &[]);
    let data = folder.join("data");
    // A server that starts removes the temporary tables of all others that have the same folder for them.
    let mut made = Command::new(install);
    made.env("TMPDIR", &folder).arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    made.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    if is_root() {
        made.arg("--user=root");
    }
    run(&mut made);
    let socket = folder.join("socket");
    let mut server = Command::new("sh");
    server.env("TMPDIR", &folder);
    server.args(["-c", HOLD, "sh", "KILL"]).arg(&folder).arg(program).arg("--no-defaults");
    server.arg(format!("--datadir={}", data.display())).arg(format!("--socket={}", socket.display()));
    // A commit is in the system's memory, which survives the server.
    server.args(["--skip-networking", "--innodb-flush-log-at-trx-commit=2"]);
    server.arg(format!("--innodb-buffer-pool-size={}M", super::PAGES_MIB));
    if is_root() {
        server.arg("--user=root");
    }
    let after = format!("?socket={}", socket.display());
    started(server, ("mysql://root@localhost/", after, true), folder).await
}

/// Starts a server that nobody else has. A killed postmaster would leave its children for a moment, which write into the folder, so
/// it is told to quit at once.
pub(crate) async fn start_postgres() -> Server {
    let folder = folder();
    let programs: Vec<String> =
        (12..30).rev().map(|major| format!("/usr/lib/postgresql/{major}/bin")).collect();
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    let program = find("postgres", "postgresql", &programs);
    let initdb = find("initdb", "postgresql", &programs);
    let data = folder.join("data");
    let mut made = as_postgres(&initdb, &folder);
    made.args([
        "--no-sync",
        "--auth=trust",
        "--username=postgres",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "-D",
    ]);
    run(made.arg(&data));
    let mut server = Command::new("sh");
    server.args(["-c", HOLD, "sh", "QUIT"]).arg(&folder);
    if is_root() {
        server.args(["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    server.arg(program).arg("-D").arg(&data).arg("-k").arg(&folder);
    // On a slow machine, the test of a deadlock needs some time to make one.
    server.args(["-c", "deadlock_timeout=3s"]);
    server.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=400"]);
    server.arg("-c").arg(format!("shared_buffers={}MB", super::PAGES_MIB));
    let after = format!("?host={}", folder.display());
    started(server, ("postgres://postgres@localhost/", after, false), folder).await
}

async fn started(
    mut command: Command,
    (before, after, is_mysql): (&str, String, bool),
    folder: PathBuf,
) -> Server {
    let shell = Mutex::new(hold(&mut command));
    let (before, command) = (before.to_owned(), Mutex::new(command));
    let server = Server { before, after, is_mysql, folder, command, shell };
    server.ready().await;
    server
}

/// Returns a command as the user postgres if this process is root's, because the server refuses to be.
fn as_postgres(program: &Path, folder: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let user = nix::unistd::User::from_name("postgres").unwrap().unwrap();
    std::os::unix::fs::chown(folder, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program).current_dir(folder);
    command
}

fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

fn folder() -> PathBuf {
    tempfile::Builder::new().prefix("sf-sql-").tempdir().unwrap().keep()
}

/// Returns the path of a program, or fails with how to install it.
fn find(program: &str, package: &str, folders: &[&str]) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).chain(folders.iter().map(PathBuf::from));
    let found = all.map(|folder| folder.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("{program} is missing: install it, in Debian by `apt-get install {package}`")
    })
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {text}{}", String::from_utf8_lossy(&output.stdout));
}

pub(super) fn hold(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
