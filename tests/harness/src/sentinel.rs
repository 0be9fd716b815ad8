//! A primary, its replicas and the sentinels that watch them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use redis::{ConnectionLike, RedisResult, Value};

use super::process::{Launch, Worker};
use super::redis_server::{Aof, HARNESS_PASSWORD, HARNESS_USER, RedisServer, free_port};
use super::server_program;
use super::wait::until;

/// The name under which the sentinels know the primary.
pub const SERVICE: &str = "main";

const SOON: Duration = Duration::from_secs(30);

/// What to start.
#[derive(Clone, Copy, Default)]
pub struct Builder<'a> {
    args: &'a [&'a str],
    password: Option<&'a str>,
    sentinel_login: Option<(&'a str, &'a str)>,
}

impl<'a> Builder<'a> {
    /// Adds arguments for each server, such as `["--min-replicas-to-write", "1"]`.
    pub fn args(self, args: &'a [&'a str]) -> Self {
        Self { args, ..self }
    }

    /// Sets the password of the servers' user `default`.
    pub fn password(self, password: &'a str) -> Self {
        Self { password: Some(password), ..self }
    }

    /// Sets the only user that the sentinels admit, and its password. It has the rights that the Redis documentation lists.
    pub fn sentinel_login(self, user: &'a str, password: &'a str) -> Self {
        Self { sentinel_login: Some((user, password)), ..self }
    }

    /// Starts one primary, two replicas and three sentinels that know each other.
    pub fn start(self) -> Watched {
        let primary = self.server(&[]);
        let port = primary.port().to_string();
        let follow = ["--replicaof", &format!("127.0.0.1 {port}")].map(str::to_owned);
        let follow: Vec<&str> = follow.iter().map(String::as_str).collect();
        let servers = vec![primary, self.server(&follow), self.server(&follow)];
        // A sentinel looks for replicas when it starts, and then every ten seconds.
        until("the replicas to follow", SOON, || {
            info(&servers[0], "connected_slaves") == "2"
                && servers[1..].iter().all(|replica| info(replica, "master_link_status") == "up")
        });
        let sentinels =
            (0..3).map(|_| Sentinel::start(servers[0].port(), self.sentinel_login, &[])).collect();
        let watched = Watched { servers, sentinels, password: self.password.map(str::to_owned) };
        until("the sentinels to know each other and the replicas", SOON, || {
            watched.sentinels.iter().all(|sentinel| {
                sentinel.fact("num-other-sentinels") == "2" && sentinel.fact("num-slaves") == "2"
            })
        });
        watched
    }

    fn server(self, more: &[&str]) -> RedisServer {
        let login = ["--masteruser", HARNESS_USER, "--masterauth", HARNESS_PASSWORD];
        let quick = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let args = [&login[..], &quick[..], self.args, more].concat();
        let builder = RedisServer::builder().aof(Aof::None).args(&args);
        match self.password {
            Some(password) => builder.password(password).start(),
            None => builder.start(),
        }
    }
}

/// One primary, two replicas, three sentinels.
pub struct Watched {
    /// The first one was the primary at the start.
    pub servers: Vec<RedisServer>,
    pub sentinels: Vec<Sentinel>,
    password: Option<String>,
}

impl Watched {
    pub fn builder<'a>() -> Builder<'a> {
        Builder::default()
    }

    /// Returns the address with all sentinels and the passwords.
    pub fn url(&self) -> String {
        let [first, second, third] = &self.sentinels[..] else { panic!("there are three sentinels") };
        let login = self.password.as_ref().map_or_else(String::new, |password| format!(":{password}@"));
        let sentinel = first.login.as_ref().map_or_else(String::new, |(user, password)| {
            format!("&sentinelUsername={user}&sentinelPassword={password}")
        });
        let nodes = format!("node={}&node={}", second.addr(), third.addr());
        format!("redis-sentinel://{login}{}/0?sentinelServiceName={SERVICE}&{nodes}{sentinel}", first.addr())
    }

    /// Waits until one of the replicas is a primary, and returns it.
    pub fn promoted(&self) -> &RedisServer {
        until("a replica to be promoted", SOON, || {
            self.servers[1..].iter().find(|server| role(server).as_deref() == Some("master"))
        })
    }
}

/// Returns the role of a server, if it answers.
pub fn role(server: &RedisServer) -> Option<String> {
    let role = server.try_cmd(&["ROLE"]).ok()?;
    let Value::Array(parts) = role else { return None };
    redis::from_redis_value(parts.first()?.clone()).ok()
}

/// Returns one value of `INFO replication`.
pub fn info(server: &RedisServer, name: &str) -> String {
    let text: String = redis::from_redis_value(server.cmd(&["INFO", "replication"])).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut found = lines.filter(|(key, _)| *key == name);
    found.next().map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// A running sentinel. It is killed on drop.
pub struct Sentinel {
    process: Worker,
    port: u16,
    login: Option<(String, String)>,
}

impl Sentinel {
    /// Starts a sentinel for the primary on this port, with more lines in its configuration. `login` is the only user that it
    /// admits, and the password.
    pub fn start(primary: u16, login: Option<(&str, &str)>, more: &[String]) -> Self {
        let port = free_port();
        let configuration = [&configuration(primary, port, login)[..], more].concat().join("\n") + "\n";
        // Debian packages sentinels separately, but they are the same program.
        let launch = Launch::program(server_program::path(), &["{config}", "--sentinel"]);
        let process = launch.config(&configuration).start();
        let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
        let sentinel = Self { process, port, login };
        until("the sentinel to answer", SOON, || sentinel.try_cmd(&["PING"]).is_ok());
        sentinel
    }

    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Runs one command, or panics.
    pub fn cmd(&self, args: &[&str]) -> Value {
        self.try_cmd(args)
            .unwrap_or_else(|error| panic!("the sentinel at {} returned an error: {error}", self.addr()))
    }

    /// Freezes it; its connections stay open.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// Promotes a replica although the primary is healthy.
    pub fn fail_over(&self) {
        self.cmd(&["SENTINEL", "FAILOVER", SERVICE]);
    }

    /// Returns one value of `SENTINEL MASTER`.
    pub fn fact(&self, name: &str) -> String {
        match self.try_cmd(&["SENTINEL", "MASTER", SERVICE]) {
            Ok(facts) => value_of(name, facts),
            Err(_) => String::new(),
        }
    }

    /// Returns one value of the only replica in `SENTINEL REPLICAS`.
    pub fn replica_fact(&self, name: &str) -> String {
        match self.try_cmd(&["SENTINEL", "REPLICAS", SERVICE]) {
            Ok(Value::Array(mut replicas)) if replicas.len() == 1 => value_of(name, replicas.remove(0)),
            Ok(_) | Err(_) => String::new(),
        }
    }

    fn try_cmd(&self, args: &[&str]) -> RedisResult<Value> {
        let login = match &self.login {
            Some(_) => format!("{HARNESS_USER}:{HARNESS_PASSWORD}@"),
            None => String::new(),
        };
        let client = redis::Client::open(format!("redis://{login}{}", self.addr()))?;
        let mut connection = client.get_connection_with_timeout(SOON)?;
        connection.set_read_timeout(Some(SOON))?;
        let mut command = redis::Cmd::new();
        for arg in args {
            command.arg(arg);
        }
        connection.req_command(&command)
    }
}

/// Returns the value behind this name in a flat list.
fn value_of(name: &str, facts: Value) -> String {
    let Value::Array(flat) = facts else { return String::new() };
    let flat: Vec<String> = flat.into_iter().filter_map(|part| redis::from_redis_value(part).ok()).collect();
    let mut found = flat.chunks_exact(2).filter(|pair| pair[0] == name);
    found.next().map(|pair| pair[1].clone()).unwrap_or_default()
}

fn configuration(primary: u16, port: u16, login: Option<(&str, &str)>) -> Vec<String> {
    let mut lines = vec![
        format!("port {port}"),
        "bind 127.0.0.1".to_owned(),
        // The log is printed if the test panics.
        "logfile /dev/stderr".to_owned(),
        format!("sentinel monitor {SERVICE} 127.0.0.1 {primary} 2"),
        format!("sentinel down-after-milliseconds {SERVICE} 1000"),
        format!("sentinel failover-timeout {SERVICE} 4000"),
        format!("sentinel parallel-syncs {SERVICE} 2"),
        format!("sentinel auth-user {SERVICE} {HARNESS_USER}"),
        format!("sentinel auth-pass {SERVICE} {HARNESS_PASSWORD}"),
    ];
    if let Some((user, password)) = login {
        let needed = "+auth +hello +ping +info +client|id +subscribe +sentinel|get-master-addr-by-name";
        lines.extend([
            format!("user {HARNESS_USER} on >{HARNESS_PASSWORD} allchannels +@all"),
            format!("user {user} on >{password} allchannels -@all {needed}"),
            "user default off".to_owned(),
            format!("sentinel sentinel-user {HARNESS_USER}"),
            format!("sentinel sentinel-pass {HARNESS_PASSWORD}"),
        ]);
    }
    lines
}
