//! Every login and every kind of command: what the server allows.

use std::fmt::Write;

use redis::Value;

use super::logins::{LOGINS, Site};

const JOBS: &str = "sf:{default}:jobs";
const DEAD: &str = "sf:{default}:dead";
const CONTROL: &str = "sf:{default}:control";
const RECORD: &str = "sf:{default}:job:7";
const CRON: &str = "sf:{default}:cron";
const WORKER: &str = "sf:worker:somebody";
const SESSIONS: &str = "sf:console:ended:somebody";

/// The login of the person who keeps the server.
const KEEPER: &str = "admin";

/// Returns the commands to try, each with a description.
fn commands() -> Vec<(&'static str, Vec<&'static str>)> {
    let named = [
        // Commands of fleets, services and monitors.
        ("submit: XADD to a lane", vec!["XADD", JOBS, "*", "type", "a"]),
        ("read the jobs of a lane", vec!["XRANGE", JOBS, "-", "+"]),
        ("take jobs", vec!["XREADGROUP", "GROUP", "fleet", "me", "COUNT", "1", "STREAMS", JOBS, ">"]),
        ("delete a job from a lane", vec!["XDEL", JOBS, "1-1"]),
        ("length of a lane", vec!["XLEN", JOBS]),
        ("how many are delayed", vec!["ZCARD", "sf:{default}:delayed"]),
        ("how many are dead", vec!["XLEN", DEAD]),
        ("read dead letters", vec!["XRANGE", DEAD, "-", "+"]),
        ("delete a dead letter", vec!["XDEL", DEAD, "1-1"]),
        ("read a job's record", vec!["HGETALL", RECORD]),
        ("write a job's record", vec!["HSET", RECORD, "state", "done"]),
        ("delete a job's record", vec!["DEL", RECORD]),
        ("read the queue's limits", vec!["HGET", CONTROL, "max_depth"]),
        ("write the queue's limits", vec!["HSET", CONTROL, "max_depth", "1"]),
        ("the same by a script", vec!["EVAL", "return redis.call('HSET', KEYS[1], 'a', '1')", "1", CONTROL]),
        ("dead letters by a script", vec!["EVAL", "return redis.call('XLEN', KEYS[1])", "1", DEAD]),
        ("read recurring jobs", vec!["HGETALL", CRON]),
        ("write recurring jobs", vec!["HSET", CRON, "a", "b"]),
        ("read who is alive", vec!["HGETALL", WORKER]),
        ("read which queues were deleted", vec!["XRANGE", "sf:deletions", "-", "+"]),
        ("end sessions at the console: ZADD", vec!["ZADD", SESSIONS, "1", "a"]),
        ("run a script", vec!["EVAL", "return 1", "1", JOBS]),
        ("list queues: SCAN", vec!["SCAN", "0"]),
        ("memory of a lane: MEMORY USAGE", vec!["MEMORY", "USAGE", JOBS]),
        ("INFO", vec!["INFO", "memory"]),
        ("end a blocking read: CLIENT UNBLOCK", vec!["CLIENT", "UNBLOCK", "0"]),
        ("PING", vec!["PING"]),
        ("TIME", vec!["TIME"]),
        ("WAIT", vec!["WAIT", "0", "1"]),
        // Keys and channels of other applications.
        ("a foreign key: GET", vec!["GET", "other:a"]),
        ("a foreign key: SET", vec!["SET", "other:a", "1"]),
        ("a foreign key: XADD", vec!["XADD", "other:{default}:jobs", "*", "a", "b"]),
        ("a foreign key by a script", vec!["EVAL", "return redis.call('GET', KEYS[1])", "1", "other:a"]),
        ("a foreign key hidden in a script", vec!["EVAL", "return redis.call('GET', 'other:a')", "1", JOBS]),
        ("a foreign channel: PUBLISH", vec!["PUBLISH", "news", "1"]),
        ("a foreign channel: SUBSCRIBE", vec!["SUBSCRIBE", "news"]),
        ("keyspace events: PSUBSCRIBE", vec!["PSUBSCRIBE", "__key*"]),
        ("CONFIG in a script", vec!["EVAL", "return redis.call('CONFIG', 'GET', 'dir')", "1", JOBS]),
    ];
    named.into_iter().chain(of_servers().into_iter().map(|words| ("", words))).collect()
}

/// Returns commands about the whole server, which only the person who keeps it needs.
fn of_servers() -> Vec<Vec<&'static str>> {
    let lines = [
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
        "KEYS *",
        "RANDOMKEY",
        "DBSIZE",
        "MOVE sf:{default}:jobs 1",
        "COPY sf:{default}:jobs sf:{default}:copy",
        "RENAME sf:{default}:jobs sf:{default}:dead",
        "DUMP sf:{default}:jobs",
        "RESTORE sf:a 0 x",
        "MIGRATE 127.0.0.1 1 sf:a 0 1",
        "OBJECT ENCODING sf:{default}:jobs",
        "SORT sf:{default}:wake",
        "TOUCH sf:a",
        "XGROUP DESTROY sf:{default}:jobs fleet",
        "XGROUP SETID sf:{default}:jobs fleet 0",
        "XSETID sf:{default}:jobs 9-9",
        "SCRIPT FLUSH",
        "SCRIPT LOAD return",
        "SCRIPT KILL",
        "FUNCTION FLUSH",
        "FUNCTION LOAD x",
        "FCALL f 0",
        "CONFIG GET *",
        "CONFIG SET maxmemory-policy allkeys-lru",
        "CONFIG REWRITE",
        "CONFIG RESETSTAT",
        "ACL LIST",
        "ACL WHOAMI",
        "ACL SETUSER worker +@all",
        "ACL LOG",
        "CLIENT LIST",
        "CLIENT KILL TYPE normal",
        "CLIENT PAUSE 1",
        "CLIENT NO-EVICT on",
        "CLIENT TRACKING ON BCAST",
        "MONITOR",
        "DEBUG SLEEP 0",
        "SHUTDOWN NOSAVE",
        "SAVE",
        "BGSAVE",
        "BGREWRITEAOF",
        "LASTSAVE",
        "REPLICAOF NO ONE",
        "FAILOVER",
        "PSYNC ? -1",
        "CLUSTER INFO",
        "ROLE",
        "MODULE LIST",
        "LATENCY LATEST",
        "SLOWLOG GET",
    ];
    lines.map(|line| line.split(' ').collect()).into()
}

/// Returns true if this login may run the command. Uses a new connection, because some commands change its state.
fn may(site: &Site, login: &str, command: &[&str]) -> bool {
    if login == KEEPER {
        // It could end the server.
        return site.server.cmd(&[&["ACL", "DRYRUN", login], command].concat()) == Value::Okay;
    }
    let mut sent = redis::Cmd::new();
    command.iter().for_each(|word| {
        sent.arg(*word);
    });
    match sent.query::<Value>(&mut site.connect(login)) {
        Ok(_) => true,
        Err(error) => {
            let said = format!("{error} {:?}", error.detail());
            let refused = [
                "NOPERM",
                "no permissions",
                "No permissions",
                "can't run this command",
                "can't access",
                "not allowed",
            ];
            !refused.iter().any(|words| said.contains(words))
        }
    }
}

#[test]
fn every_login_may_do_its_own_work_and_nothing_else() {
    let site = Site::new();
    site.server.cmd(&["XGROUP", "CREATE", JOBS, "fleet", "0", "MKSTREAM"]);
    let mut table = format!("{:<46}", "");
    LOGINS.iter().for_each(|login| write!(table, " {login:<9}").unwrap());
    for (name, command) in commands() {
        let shown = if name.is_empty() { command.join(" ") } else { name.to_owned() };
        write!(table, "\n{shown:<46}").unwrap();
        for login in LOGINS {
            let answer = if may(&site, login, &command) { "yes" } else { "-" };
            write!(table, " {answer:<9}").unwrap();
            assert!(answer == "-" || !name.is_empty() || login == KEEPER, "{login} may {shown}");
        }
    }
    let table: Vec<&str> = table.lines().map(str::trim_end).collect();
    println!("{}", table.join("\n"));
    insta::assert_snapshot!(table.join("\n"));
    // The server still runs, and its data is unchanged.
    assert_eq!(site.server.cmd(&["XLEN", "other:{default}:jobs"]), Value::Int(0));
    let policy = site.server.cmd(&["CONFIG", "GET", "maxmemory-policy"]);
    assert!(format!("{policy:?}").contains("noeviction"), "{policy:?}");
}
