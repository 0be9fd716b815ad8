//! `streamfleet check`: is this Redis fit for a fleet, and may this login do everything that a fleet does? `facts` judges
//! what Redis reports about itself. The login's rights are tested by exercising them.

mod facts;

use std::time::{Duration, Instant};

use serde::Serialize;
use streamfleet::{Broker, ErrorClass, RedisError};
use streamfleet_engine::admin::{Listed, Missing, Server, Step};

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, View, harmless};
use super::times::short;

/// The rights that a fleet's login needs besides its keys, as `deploy/redis/users.acl` grants them to `worker`.
const RIGHTS: &str = "resetchannels -@all +@connection -client|tracking +@stream +@hash +@sortedset +@string +@list -@dangerous \
    +eval +evalsha +time +info +client|unblock +del +unlink +exists +type +expire +pexpire +persist +ttl +pttl -xgroup|destroy \
    -xgroup|setid -xsetid";

/// The level of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    /// Everything is as it should be.
    Ok,
    /// A fleet works, but somebody should look at this.
    Warning,
    /// A fleet does not work, or loses jobs.
    Error,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    level: Level,
    /// The server of a cluster; none if the finding applies to all servers, or if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    found: String,
    /// What to do about it; none if the level is `ok`.
    remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, node: None, found: found.into(), remedy: None }
    }

    fn warning(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, node: None, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn error(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Error, node: None, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// All findings, for JSON output.
#[derive(Serialize)]
struct Report {
    redis: String,
    namespace: String,
    fit: bool,
    findings: Vec<Finding>,
}

/// Runs the checks. The exit code is 3 if Redis is unreachable or refuses the login, and 5 if it is unfit.
pub(crate) async fn run(context: &Context) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let (findings, exit) = match reach(context).await {
        Err(RedisError::Address(why)) => return Err(super::Wrong(why).into()),
        Err(error) => (vec![unreachable(&error)], Exit::Redis),
        Ok(broker) => {
            let mut findings = vec![Finding::ok("reachable", format!("in {}", short(started.elapsed())))];
            findings.extend(examine(&broker).await);
            let unfit = findings.iter().any(|finding| finding.level == Level::Error);
            (findings, if unfit { Exit::Unfit } else { Exit::Done })
        }
    };
    let report = Report {
        redis: context.effective.config.redis.shown(),
        namespace: context.effective.config.redis.namespace.to_string(),
        fit: exit == Exit::Done,
        findings,
    };
    context.output.print(&report, show)?;
    Ok(exit)
}

/// Connects and sends a PING: some servers accept a connection without a login, and then refuse every command.
async fn reach(context: &Context) -> Result<Broker, RedisError> {
    let broker = Broker::connect(context.effective.config.redis.clone()).await?;
    match broker.ping().await {
        // The login may have no right to PING itself.
        Err(error) if !refuses_login(&error) && error.class() == Some(ErrorClass::Configuration) => {
            Ok(broker)
        }
        other => other.map(|()| broker),
    }
}

fn refuses_login(error: &RedisError) -> bool {
    let text = error.to_string();
    ["NOAUTH", "WRONGPASS", "invalid password", "Authentication"].iter().any(|word| text.contains(word))
}

/// What to do if Redis refuses every write because it cannot write to its disk.
const DISK: &str = "free space on the disk of its `dir` or repair it (CONFIG GET dir; see its log), or allow it to write there: \
    it accepts jobs again after the next successful snapshot or write";

fn cannot_write(error: &RedisError) -> bool {
    error.to_string().contains("MISCONF")
}

fn unreachable(error: &RedisError) -> Finding {
    let remedy = if refuses_login(error) {
        "set the user and the password in redis.url, or the password in redis.password_file"
    } else if cannot_write(error) {
        DISK
    } else if error.class() == Some(ErrorClass::Busy) {
        "wait until this server is ready, or name one that is"
    } else if error.to_string().starts_with("TLS with ") {
        "correct [redis.tls], the address or the server's certificate; see docs/tls.md"
    } else {
        "start Redis there, or correct redis.url; then check firewalls and TLS (rediss://)"
    };
    Finding::error("reachable", harmless(&error.to_string()), remedy)
}

async fn examine(broker: &Broker) -> Vec<Finding> {
    let asked = Instant::now();
    let (found, missing) = match broker.servers().await {
        Ok(Listed { found, missing }) => (found, missing),
        Err(error) => return without_info(broker, &error).await,
    };
    let took = asked.elapsed();
    let mut findings = Vec::new();
    for server in &found {
        let mut of_server = facts::judge(server, &broker.shown(), took);
        let (started, node) = (Instant::now(), server.node.as_deref());
        let steps = broker.rehearse(node).await;
        of_server.push(rights(&steps, started.elapsed(), broker.namespace().as_str()));
        of_server.extend(one_command(broker, server).await);
        of_server.extend(unblock(broker, server).await);
        of_server.extend(arguments(broker, server).await);
        of_server.extend(bounds(broker, server).await);
        findings
            .extend(of_server.into_iter().map(|finding| Finding { node: server.node.clone(), ..finding }));
    }
    for Missing { node, error } in missing {
        let finding = match error.class() {
            Some(ErrorClass::Configuration) => no_info(&error),
            _ => unreachable(&error),
        };
        findings.push(Finding { node: Some(node), ..finding });
    }
    let mut findings = merged(findings, found.len());
    findings.extend(listing(broker).await);
    findings
}

/// What can be checked if the server does not answer INFO.
async fn without_info(broker: &Broker, error: &RedisError) -> Vec<Finding> {
    let started = Instant::now();
    let rights = rights(&broker.rehearse(None).await, started.elapsed(), broker.namespace().as_str());
    [no_info(error), rights].into_iter().chain(listing(broker).await).collect()
}

fn no_info(error: &RedisError) -> Finding {
    let found = format!("version, eviction and persistence are unknown: {error}");
    Finding::warning("info", found, "grant INFO: ACL SETUSER <user> +info")
}

/// Groups the findings by check. If a finding is the same for every server, it is kept only once.
fn merged(mut findings: Vec<Finding>, servers: usize) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    while !findings.is_empty() {
        let check = findings[0].check;
        let mut alike: Vec<Finding> = findings.extract_if(.., |finding| finding.check == check).collect();
        let first = Finding { node: None, ..alike[0].clone() };
        if alike.len() == servers && alike.iter().all(|next| Finding { node: None, ..next.clone() } == first)
        {
            alike = vec![first];
        }
        all.append(&mut alike);
    }
    all
}

/// Checks the right to list, which only people need: a fleet works without it. Returns nothing if the server does not
/// answer, because that is reported already.
async fn listing(broker: &Broker) -> Option<Finding> {
    const CHECK: &str = "listing";
    let listed = async { broker.queues().await.map(drop).and(broker.workers().await.map(drop)) };
    match listed.await {
        Ok(()) => Some(Finding::ok(CHECK, "this login may list queues and workers")),
        Err(error) if error.class() == Some(ErrorClass::Configuration) => Some(Finding::ok(
            CHECK,
            "this login may not list queues and workers, which needs +scan; a worker does not need it",
        )),
        Err(_) => None,
    }
}

/// Reports a right that makes workers cheaper for Redis, if only that right is missing.
async fn one_command(broker: &Broker, server: &Server) -> Option<Finding> {
    let found = "this login may not run XACKDEL, so workers end plain jobs by XDEL and XACK, which costs Redis more; \
        grant it by +xackdel";
    broker.is_refused_xackdel(server).await.then(|| Finding::ok("xackdel", found))
}

/// Warns if a worker cannot end its own blocking read, if the server answers at all.
async fn unblock(broker: &Broker, server: &Server) -> Option<Finding> {
    let found = "CLIENT UNBLOCK is refused, so a worker that stops or reconnects waits up to 12 s for its last read to end";
    let remedy =
        "grant +client|unblock; if the service does not have the command, give workers 12 s more to stop";
    broker.is_refused_unblock(server).await.then(|| Finding::warning("unblock", found, remedy))
}

/// Warns if the server bounds the arguments of a call to fewer than a bulk submission may have.
async fn arguments(broker: &Broker, server: &Server) -> Option<Finding> {
    let found =
        "the server refuses a call with 4000 arguments, so it refuses many jobs that are submitted at once";
    let remedy = "submit fewer jobs at a time: 100 jobs of 15 fields each have about 3000 arguments";
    broker.is_refused_many_arguments(server).await.then(|| Finding::warning("arguments", found, remedy))
}

/// Warns if the server cuts connections that send what a fleet may have to send. Only few logins may ask for that.
async fn bounds(broker: &Broker, server: &Server) -> Option<Finding> {
    let low = broker.low_bounds(server).await;
    let settings: Vec<&str> = low.iter().map(|(setting, _)| *setting).collect();
    let remedies: Vec<String> =
        low.iter().map(|(setting, least)| format!("CONFIG SET {setting} {least}")).collect();
    let found = format!(
        "{} is too low: Redis cuts the connection of a worker that moves a large job",
        settings.join(", ")
    );
    let remedy = format!("{}, and the same in redis.conf", remedies.join("; "));
    (!low.is_empty()).then(|| Finding::warning("bounds", found, remedy))
}

/// Derives the login's rights from the rehearsal of a job's life.
fn rights(steps: &[Step], took: Duration, namespace: &str) -> Finding {
    const CHECK: &str = "rights";
    let failed = steps.iter().find_map(|step| Some((step.name, step.result.as_ref().err()?)));
    let Some((name, error)) = failed else {
        let found =
            format!("a test job went through its whole life in {} steps and {}", steps.len(), short(took));
        return Finding::ok(CHECK, found);
    };
    let remedy = if let Some(known) = of_a_service(&error.to_string()) {
        known.to_owned()
    } else if error.class() == Some(ErrorClass::Configuration) {
        format!("ACL SETUSER <user> {}", rules(namespace))
    } else if cannot_write(error) {
        DISK.to_owned()
    } else if error.is_transient() {
        "check again when the server is ready".to_owned()
    } else {
        "this server does not behave like Redis; use Redis 7.0 or Valkey 7.2, or later".to_owned()
    };
    let done = steps.iter().take_while(|step| step.result.is_ok()).count();
    Finding::error(CHECK, format!("after {done} steps, \"{name}\" failed: {error}"), remedy)
}

/// The keys and the rights that a fleet's login needs.
fn rules(namespace: &str) -> String {
    format!("~{namespace}:{{*}}:* ~{namespace}:alerts:* ~{namespace}:worker:* ~{namespace}:outbox:* {RIGHTS}")
}

/// What to do about a refusal that a managed service or a compatible server is known for; see docs/managed-redis.md.
fn of_a_service(error: &str) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 5] = [
        (
            "bad lua script for redis cluster",
            "set script_check_enable to 0 in the parameters of the instance, or use one without a proxy or a cluster; see docs/managed-redis.md",
        ),
        (
            "accessing undeclared key",
            "start Dragonfly with --cluster_mode=emulated --lock_on_hashtags, or with --default_lua_flags=allow-undeclared-keys; see \
             docs/managed-redis.md",
        ),
        (
            "Dynamic keys are not allowed in Lua scripts",
            "create the database without allow-key-locking; see docs/managed-redis.md",
        ),
        (
            "access a non local key in a cluster node",
            "name the servers by redis-cluster://; see docs/topologies.md",
        ),
        (
            "access keys that do not hash to the same slot",
            "use a service that runs scripts with keys of one hash tag; see docs/managed-redis.md",
        ),
    ];
    KNOWN.iter().find(|(text, _)| error.contains(text)).map(|(_, remedy)| *remedy)
}

fn show(report: &Report) -> View {
    let mut table = output::table(&[Column::from("check"), Column::state(""), Column::prose("found")]);
    for finding in &report.findings {
        let level = match finding.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Error => "ERROR",
        };
        let remedy = finding.remedy.as_ref().map_or_else(String::new, |remedy| format!("\n→ {remedy}"));
        let node = finding.node.as_ref().map_or_else(String::new, |node| format!("{}: ", harmless(node)));
        table.add_row([finding.check, level, &format!("{node}{}{remedy}", harmless(&finding.found))]);
    }
    let verdict = if report.fit { "fit for a fleet" } else { "not fit for a fleet" };
    View::from(table).then(format!("{}, namespace {}: {verdict}", report.redis, report.namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_managed_services_refuse_is_recognised() {
        let refused = "redis refused evalsha: ERR bad lua script for redis cluster, all the keys that the script uses should be \
                       passed using the KEYS array";
        assert!(of_a_service(refused).unwrap().contains("script_check_enable"));
        let refused =
            "redis refused evalsha: ERR Error running script: script tried accessing undeclared key";
        assert!(of_a_service(refused).unwrap().contains("allow-undeclared-keys"));
        assert_eq!(of_a_service("redis refused xadd: OOM"), None);
    }

    #[test]
    fn the_remedy_for_a_server_that_cannot_write_is_about_its_disk() {
        let detail = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.";
        let error =
            RedisError::Refused { command: "connect", class: ErrorClass::Busy, detail: detail.to_owned() };
        for finding in [
            unreachable(&error),
            rights(&[Step { name: "enqueue", result: Err(error.clone()) }], Duration::ZERO, "sf"),
        ] {
            let remedy = finding.remedy.unwrap();
            assert!(remedy.contains("disk") && !remedy.contains("start Redis"), "{remedy}");
        }
    }

    #[test]
    fn the_remedy_names_the_rights_of_users_acl() {
        let users = include_str!("../../../deploy/redis/users.acl");
        let worker = users.lines().find(|line| line.starts_with("user worker ")).unwrap();
        assert_eq!(worker, format!("user worker on #SHA-256-of-worker resetkeys {}", rules("sf")));
    }
}
