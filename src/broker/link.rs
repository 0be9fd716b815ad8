//! One connection to Redis that mends itself. The client neither notices a half-open connection under steady writes nor
//! one on which a read blocks, and a client whose own task ended accepts commands for ever without answering; so a link
//! watches the answers, forces a new connection when they stop, and builds a new client when that does not help.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::{ClientInterface, ClientLike, EventInterface};
use fred::types::ClientUnblockFlag;
use fred::types::ConnectHandle;
use fred::types::config::{ConnectionConfig, ReconnectError, ReconnectPolicy, Server};
use fred::types::{Builder, Key, Value};
use futures_util::FutureExt;
use socket2::TcpKeepalive;
use tokio::sync::broadcast;

use super::error::Error;
use super::meter::{Meter, Reading};
use super::script::{Answer, Script};

/// What a link is for, which decides its deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Short commands, many at a time.
    Commands,
    /// One blocking command at a time.
    Blocking,
    /// Writes, and commands that wait until they are kept. Its connection is never mended: see `confirm`.
    Confirming,
}

/// The deadline of every command that does not block.
pub(crate) const COMMAND_DEADLINE: Duration = Duration::from_secs(5);

/// How long one try to connect, log in and select the database may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);

/// After this long without an answer to anything, a new client is built.
const REBUILD_AFTER: Duration = Duration::from_secs(20);

/// A connection that mends itself. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    config: fred::types::config::Config,
    role: Role,
    meter: Option<Meter>,
    live: Mutex<Live>,
}

struct Live {
    client: Client,
    task: ConnectHandle,
    /// Since when nothing was answered; `None` while answers come.
    silent_since: Option<Instant>,
    /// When something was last answered, or the client was made.
    sound: Instant,
    /// Whether a new connection was asked for since then. Each request is one more for the client to work off, with a
    /// pause before it, so one at a time must do.
    forced: bool,
    /// Has one message for each connection that the client made after its first.
    again: broadcast::Receiver<Server>,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Why the first connection failed: a wrong address or password, or nobody listening.
    pub(crate) async fn open(
        config: fred::types::config::Config,
        role: Role,
        meter: Option<Meter>,
    ) -> Result<Self, Error> {
        let client = build(&config, role)?;
        let connected = tokio::time::timeout(3 * CONNECT_DEADLINE, Box::pin(client.init())).await;
        let late = || Error::Unreachable(format!("no connection within {:?}", 3 * CONNECT_DEADLINE));
        let task = connected.map_err(|_| late())?.map_err(|error| Error::from_connect(&error))?;
        let again = client.reconnect_rx();
        let live = Live { client, task, silent_since: None, sound: Instant::now(), forced: false, again };
        Ok(Self { shared: Arc::new(Shared { config, role, meter, live: Mutex::new(live) }) })
    }

    /// A further connection to the same server.
    pub(crate) async fn beside(&self, role: Role) -> Result<Self, Error> {
        Self::open(self.shared.config.clone(), role, self.shared.meter.clone()).await
    }

    /// True where the other one is the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// True where the server is one of several that share the keys.
    pub(crate) fn is_clustered(&self) -> bool {
        self.shared.config.server.is_clustered()
    }

    /// The client of the moment. Commands go through [`Link::ask`] and [`Link::run`].
    pub(crate) fn client(&self) -> Client {
        self.live().client.clone()
    }

    /// True where the connection is known to be gone. That it is not known proves nothing.
    pub(crate) fn is_broken(&self) -> bool {
        !self.live().client.is_connected()
    }

    /// Ends the blocking command that is under way, if there is one, with an empty answer. Best effort: where the server
    /// does not know the command, the block ends by itself.
    pub(crate) async fn unblock(&self) {
        let client = self.client();
        let unblock = Box::pin(client.unblock_self(Some(ClientUnblockFlag::Timeout)));
        if let Ok(Err(error)) = tokio::time::timeout(Duration::from_secs(1), unblock).await {
            tracing::debug!(error = error.details(), "nothing was unblocked");
        }
    }

    /// Awaits the reply to one command of the client, and draws conclusions from its absence.
    pub(crate) fn ask<'a, T: 'a>(
        &'a self,
        command: &'static str,
        reply: impl Future<Output = Result<T, fred::error::Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'a {
        let reply = Box::pin(reply);
        self.watch(
            Some(command),
            async move { reply.await.map_err(|error| Error::from_client(command, &error)) },
        )
    }

    /// The same for a command that waits for something to happen. How long that takes says nothing of Redis.
    pub(crate) fn ask_waiting<'a, T: 'a>(
        &'a self,
        command: &'static str,
        reply: impl Future<Output = Result<T, fred::error::Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'a {
        let reply = Box::pin(reply);
        self.watch(None, async move { reply.await.map_err(|error| Error::from_client(command, &error)) })
    }

    /// Runs a script.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: Vec<Key>,
        args: Vec<Value>,
    ) -> Result<Answer, Error> {
        self.watch(Some(script.name), script.run(&self.client(), keys, args)).await
    }

    /// Awaits one answer, and draws conclusions from its absence; measures the round trip of a command that has a name. The
    /// client's futures are tens of kilobytes large, so they are put into a box here, and into nobody's stack.
    pub(super) fn watch<'a, T: 'a>(
        &'a self,
        command: Option<&'static str>,
        answer: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'a {
        let answer = Box::pin(answer);
        async move {
            let asked = Instant::now();
            let result = answer.await;
            match &result {
                Err(Error::Unknown { .. }) => self.note_silence(asked),
                _ => self.note_answer(),
            }
            if let (Some(command), Some(meter)) = (command, &self.shared.meter) {
                meter(Reading::Trip { command, took: asked.elapsed() });
            }
            result
        }
    }

    /// Drops the connection, so that a new one is made; builds a new client where that has not helped.
    pub(crate) fn reconnect(&self) {
        if self.shared.role == Role::Confirming {
            return;
        }
        let mut live = self.live();
        let silent_since = *live.silent_since.get_or_insert_with(Instant::now);
        if silent_since.elapsed() > REBUILD_AFTER || live.task.is_finished() {
            self.rebuild(&mut live);
        } else if !live.forced {
            live.forced = true;
            let client = live.client.clone();
            drop(live);
            // The first poll queues the request for the client's own task; its answer tells nothing that matters.
            client.force_reconnection().now_or_never();
        }
    }

    fn note_answer(&self) {
        let mut live = self.live();
        live.silent_since = None;
        live.sound = Instant::now();
        live.forced = false;
        let times = live.connected_again();
        drop(live);
        if let (1.., Some(meter)) = (times, &self.shared.meter) {
            meter(Reading::Reconnected(times));
        }
    }

    fn note_silence(&self, asked: Instant) {
        let mut live = self.live();
        let silent_since = *live.silent_since.get_or_insert_with(Instant::now);
        // A broken connection is mended by the client: asking it to would only make it do so once more. One on which a command waited in vain for its whole deadline,
        // and nothing else was answered meanwhile, is dead without knowing it.
        let dead = asked.elapsed() >= COMMAND_DEADLINE && live.sound < asked;
        let stuck = dead || silent_since.elapsed() > REBUILD_AFTER || live.task.is_finished();
        drop(live);
        if stuck {
            self.reconnect();
        }
    }

    fn rebuild(&self, live: &mut Live) {
        let config = fred::types::config::Config { fail_fast: false, ..self.shared.config.clone() };
        let Ok(client) = build(&config, self.shared.role) else { return };
        tracing::warn!("the redis client does not recover; a new one is made");
        live.task.abort();
        live.again = client.reconnect_rx();
        live.task = client.connect();
        live.client = client;
        live.silent_since = None;
        // What the old client leaves unanswered says nothing of the new one.
        live.sound = Instant::now();
        live.forced = false;
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Live> {
        self.shared.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// How often the client has connected again since this was asked last.
    fn connected_again(&mut self) -> u64 {
        let mut times = 0;
        loop {
            times += match self.again.try_recv() {
                Ok(_server) => 1,
                Err(broadcast::error::TryRecvError::Lagged(missed)) => missed,
                Err(_) => return times,
            };
        }
    }
}

fn build(config: &fred::types::config::Config, role: Role) -> Result<Client, Error> {
    let mut builder = Builder::from_config(config.clone());
    // The client's linear and exponential policies lose their jitter at the cap, so a fleet would return in step.
    let mut policy = ReconnectPolicy::new_constant(0, 200);
    policy.set_jitter(1_000);
    if role != Role::Confirming {
        builder.set_policy(policy);
    }
    builder.with_connection_config(configure);
    builder.with_performance_config(|performance| {
        performance.broadcast_channel_capacity = 256;
        performance.default_command_timeout = match role {
            Role::Commands | Role::Confirming => COMMAND_DEADLINE,
            Role::Blocking => Duration::ZERO,
        };
    });
    builder.build().map_err(|error| Error::Address(format!("redis.url: {}", error.details())))
}

fn configure(connection: &mut ConnectionConfig) {
    // By default the client sends what was under way up to three times, and follows redirections wrongly. Here a broken
    // connection means an unknown outcome, and what is sent again is always an idempotent script.
    connection.max_command_attempts = 1;
    connection.max_redirections = 0;
    connection.max_command_buffer_len = 10_000;
    connection.connection_timeout = CONNECT_DEADLINE;
    connection.internal_command_timeout = CONNECT_DEADLINE;
    connection.tcp.nodelay = Some(true);
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    connection.tcp.keepalive = Some(keepalive.with_retries(3));
    connection.tcp.user_timeout = Some(Duration::from_secs(20));
    // Not `Busy`: it would also match BUSYGROUP, the usual answer to creating a group.
    connection.reconnect_errors = vec![
        ReconnectError::ReadOnly,
        ReconnectError::Loading,
        ReconnectError::ClusterDown,
        ReconnectError::MasterDown,
        ReconnectError::Custom("UNBLOCKED force unblock"),
    ];
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.live.get_mut().unwrap_or_else(PoisonError::into_inner).task.abort();
    }
}
