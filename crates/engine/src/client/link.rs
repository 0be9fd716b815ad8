//! A connection to Redis that reconnects on its own. The client notices neither a half-open connection under steady writes nor
//! one on which a read blocks, and a client whose own task has ended accepts commands for ever without answering. So a
//! link watches the answers, forces a new connection when they stop, and builds a new client when that does not help.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::interfaces::{ClientInterface, ClientLike, EventInterface, KeysInterface};
use fred::types::config::{Config, Server, ServerConfig};
use fred::types::{ClientUnblockFlag, ConnectHandle, Key, Value};
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::client::error::Error;
use crate::client::locator::{Doubt, Locator};
use crate::client::meter::{Meter, Reading};
use crate::client::script::{Answer, Script};
use crate::client::setup::{self, COMMAND_DEADLINE};
use crate::job::jittered;
use crate::mutex::lock;

mod blocking;
mod changes;
pub(crate) mod entries;
mod silence;
mod xackdel;

/// The purpose of a link, which decides its deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Short commands, many at a time.
    Commands,
    /// One blocking command at a time.
    Blocking,
    /// Writes, and commands that wait until the writes are kept. Its connection never reconnects: see
    /// `submit/durability.rs`.
    Confirming,
}

/// How long each of the two commands that end a block may take: a write, and the request itself.
const UNBLOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a script is resent if its server names another owner of the keys; that owner has not been asked yet.
const MAX_MOVES: u32 = 3;

/// A reconnecting connection to the server that the link is for. Clones share it.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    access: Config,
    locator: Locator,
    role: Role,
    meter: Option<Meter>,
    /// The link that it was opened beside, and a key that never exists.
    beside: Option<(Link, Key)>,
    /// True once the first connection was made.
    is_open: AtomicBool,
    opening: tokio::sync::Mutex<()>,
    live: Mutex<Live>,
    /// Whether the login is known to have no right to run scripts that write.
    may_only_read: AtomicBool,
}

struct Live {
    client: Client,
    server: ServerConfig,
    /// The locator's version when it named this server.
    version: u64,
    /// `None` before the first connection was made.
    task: Option<ConnectHandle>,
    /// The time since which nothing was answered; `None` while answers come.
    silent_since: Option<Instant>,
    /// When something was last answered, or the client was created.
    last_answer: Instant,
    /// Whether a new connection was requested since then. The client works off each request with a pause before it, so
    /// there must be only one at a time.
    forced: bool,
    /// Gets one message for each connection that the client made after its first.
    reconnections: broadcast::Receiver<Server>,
    /// Whether the server has `XACKDEL`.
    xackdel: xackdel::Xackdel,
    /// Whether a lookup of the server is running.
    looking_up: bool,
    /// That lookup, and clients whose server is no longer the current one.
    tasks: JoinSet<()>,
}

impl Link {
    /// Creates a link that connects on first use, or by [`Link::ready`].
    pub(crate) fn new(access: Config, locator: Locator, role: Role, meter: Option<Meter>) -> Self {
        Self::new_beside(access, locator, role, meter, None)
    }

    fn new_beside(
        access: Config,
        locator: Locator,
        role: Role,
        meter: Option<Meter>,
        beside: Option<(Link, Key)>,
    ) -> Self {
        let (version, server) = (locator.version(), locator.current());
        let client = setup::link_client(&access, &server, role, false);
        let reconnections = client.reconnect_rx();
        let live = Live {
            client,
            server,
            version,
            task: None,
            silent_since: None,
            last_answer: Instant::now(),
            forced: false,
            reconnections,
            xackdel: xackdel::Xackdel::default(),
            looking_up: false,
            tasks: JoinSet::new(),
        };
        let (is_open, opening, live) =
            (AtomicBool::new(false), tokio::sync::Mutex::default(), Mutex::new(live));
        let may_only_read = AtomicBool::new(false);
        Self {
            shared: Arc::new(Shared {
                access,
                locator,
                role,
                meter,
                beside,
                is_open,
                opening,
                live,
                may_only_read,
            }),
        }
    }

    /// Connects, unless that was done before.
    ///
    /// # Errors
    ///
    /// Why the first connection failed: a wrong address or password, or nobody listening.
    pub async fn ready(&self) -> Result<(), Error> {
        if self.shared.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        let _turn = self.shared.opening.lock().await;
        if self.shared.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        let (client, server) = self.current();
        let error = match self.connect(client).await {
            Ok(()) => return Ok(()),
            Err(error) => self.shared.locator.explain(&server, error),
        };
        if Doubt::of(&error, &server).is_none() || !self.shared.locator.may_change() {
            return Err(error);
        }
        self.shared.locator.refresh(&server).await?;
        match self.current() {
            (_, same) if same == server => Err(error),
            (client, _) => self.connect(client).await,
        }
    }

    fn connect(&self, client: Client) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let task = setup::connect_first(&client).await?;
            self.refuse_replica(&client).await?;
            let mut live = self.live();
            if live.client.id() != client.id() {
                // The server has changed in the meantime.
                return Err(changes::moved(None));
            }
            if self.shared.locator.sentinels().is_some() {
                live.tasks.spawn(changes::follow_changes(self.downgrade()));
            }
            live.reconnections = live.client.reconnect_rx();
            live.task = Some(task.detach());
            live.last_answer = Instant::now();
            drop(live);
            self.shared.is_open.store(true, Ordering::Release);
            Ok(())
        })
    }

    /// Opens another connection to the same server.
    pub(crate) async fn open_another(&self, role: Role) -> Result<Self, Error> {
        self.open_beside(role, None).await
    }

    /// Opens a further link to the same server, on which commands block. `never` is a key of the server that never exists; see
    /// [`Link::unblock`].
    pub(crate) async fn open_blocking(&self, never: Key) -> Result<Self, Error> {
        self.open_beside(Role::Blocking, Some((self.clone(), never))).await
    }

    async fn open_beside(&self, role: Role, beside: Option<(Self, Key)>) -> Result<Self, Error> {
        let shared = &self.shared;
        let (access, locator) = (shared.access.clone(), shared.locator.clone());
        let link = Self::new_beside(access, locator, role, shared.meter.clone(), beside);
        link.ready().await?;
        Ok(link)
    }

    /// Creates a link of the same kind to the server that has this key.
    pub(crate) fn for_key(&self, key: &Key) -> Self {
        let shared = &self.shared;
        Self::new(shared.access.clone(), shared.locator.for_key(key), shared.role, shared.meter.clone())
    }

    /// Creates a link of the same kind to this server, whatever keys it has.
    pub(crate) fn to_server(&self, server: Server) -> Self {
        let (shared, locator) = (&self.shared, Locator::Fixed(ServerConfig::Centralized { server }));
        Self::new(shared.access.clone(), locator, shared.role, None)
    }

    /// The locator, which knows the link's server.
    pub(crate) fn locator(&self) -> &Locator {
        &self.shared.locator
    }

    /// True if the server is one of several that share the keys.
    pub fn is_clustered(&self) -> bool {
        self.shared.locator.cluster().is_some()
    }

    /// The current client. Commands go through [`Link::ask`] and `run`.
    pub fn client(&self) -> Client {
        self.current().0
    }

    /// The current client, and its server.
    fn current(&self) -> (Client, ServerConfig) {
        let mut live = self.live();
        self.shared.follow(&mut live);
        (live.client.clone(), live.server.clone())
    }

    /// True if its server is this one, by `host:port`.
    pub(crate) fn is_to(&self, node: &str) -> bool {
        self.shared.locator.current().hosts().first().is_some_and(|server| server.to_string() == node)
    }

    /// True if the connection is known to be gone. False proves nothing.
    pub fn is_broken(&self) -> bool {
        !self.live().client.is_connected()
    }

    /// Creates a weak handle, which finds the link as long as somebody has it.
    pub(crate) fn downgrade(&self) -> WeakLink {
        WeakLink(Arc::downgrade(&self.shared))
    }

    /// Ends the blocking command in flight, if there is one, with an empty answer. Best effort: if the server does not
    /// know the command, the block ends at its timeout.
    ///
    /// While [`CLIENT PAUSE`](https://redis.io/docs/latest/commands/client-pause/) holds back writes, as before a failover, it holds
    /// back what the link has sent, too, and Redis 7.0 crashes if it is asked to unblock that (redis#14164). So a write that
    /// changes nothing goes first, by another link to the same server.
    #[doc(hidden)]
    pub async fn unblock(&self) {
        let (client, server) = self.current();
        let Some((writer, never)) = self.shared.beside.as_ref() else { return };
        let (writer, at) = writer.current();
        let write = Box::pin(writer.del::<Value, _>(never.clone()));
        if at != server || !matches!(tokio::time::timeout(UNBLOCK_TIMEOUT, write).await, Ok(Ok(_))) {
            return;
        }
        let unblock = Box::pin(client.unblock_self(Some(ClientUnblockFlag::Timeout)));
        if let Ok(Err(error)) = tokio::time::timeout(UNBLOCK_TIMEOUT, unblock).await {
            tracing::debug!(error = error.details(), "failed to unblock the connection");
        }
    }

    /// Awaits the reply to one command of the client, and notes if it fails to come.
    pub fn ask<'a, T: 'a>(
        &'a self,
        command: &'static str,
        reply: impl Future<Output = Result<T, fred::error::Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'a {
        let reply: BoxFuture<'a, _> = Box::pin(reply);
        self.watch(
            Some(command),
            async move { reply.await.map_err(|error| Error::from_client(command, &error)) },
        )
    }

    /// Awaits the reply of a command that waits for something to happen; its duration says nothing about Redis.
    pub(crate) fn ask_waiting<'a, T: 'a>(
        &'a self,
        command: &'static str,
        reply: impl Future<Output = Result<T, fred::error::Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'a {
        let reply: BoxFuture<'a, _> = Box::pin(reply);
        self.watch(None, async move { reply.await.map_err(|error| Error::from_client(command, &error)) })
    }

    /// Runs a script.
    pub(crate) fn run<'a>(
        &'a self,
        script: &'a Script,
        keys: Vec<Key>,
        args: Vec<Value>,
    ) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            self.ready().await?;
            self.await_change().await;
            if !self.is_clustered() {
                let (client, may_only_read) = (self.client(), &self.shared.may_only_read);
                return self.watch(Some(script.name), script.run(&client, keys, args, may_only_read)).await;
            }
            let mut moves = 0;
            loop {
                let (client, server) = self.current();
                let answer = script.run(&client, keys.clone(), args.clone(), &self.shared.may_only_read);
                let result = self.watch(Some(script.name), answer).await;
                let moved = result.as_ref().err().and_then(|error| Doubt::of(error, &server));
                match moved {
                    Some(Doubt::Moved(_)) if moves < MAX_MOVES => moves += 1,
                    _ => return result,
                }
                // The server that was named may not know yet that it has the keys.
                let longest = changes::FIRST_LOOKUP * moves / 4;
                tokio::time::sleep(jittered(longest, 0.0..1.0, rand::random())).await;
            }
        })
    }

    /// Runs a script that may be sent twice: if the answer is lost, it is sent again.
    pub(crate) async fn run_named(
        &self,
        script: &Script,
        keys: Vec<Key>,
        args: Vec<Value>,
    ) -> Result<Answer, Error> {
        match self.run(script, keys.clone(), args.clone()).await {
            Err(Error::Unknown { .. }) => self.run(script, keys, args).await,
            answer => answer,
        }
    }

    /// Awaits one reply, and notes if it fails to come; measures the round trip of a command that has a name. The
    /// client's futures have tens of kilobytes of state and of code, so they are boxed here: they burden no stack, and are not compiled again
    /// wherever something awaits them.
    pub fn watch<'a, T: 'a>(
        &'a self,
        command: Option<&'static str>,
        answer: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'a {
        let answer: BoxFuture<'a, _> = Box::pin(answer);
        async move {
            if !self.shared.is_open.load(Ordering::Acquire) {
                self.first_use(command).await?;
            }
            self.await_change_before(command).await?;
            let asked = Instant::now();
            let result = answer.await;
            match &result {
                Err(Error::Unknown { .. }) => self.note_silence(asked),
                _ => self.note_answer(),
            }
            if let Err(error) = &result {
                self.note_error(error);
            }
            if let (Some(command), Some(meter)) = (command, &self.shared.meter) {
                meter(Reading::Trip { command, took: asked.elapsed() });
            }
            result
        }
    }

    /// Connects, for a command that the current client is about to send.
    async fn first_use(&self, command: Option<&'static str>) -> Result<(), Error> {
        let (_, before) = self.current();
        Box::pin(self.ready()).await?;
        self.check_not_moved(&before, command)
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Live> {
        lock(&self.shared.live)
    }
}

/// A link that somebody else owns, and that may be gone.
#[derive(Clone)]
pub(crate) struct WeakLink(Weak<Shared>);

impl WeakLink {
    /// The link, if somebody still has it.
    pub(crate) fn upgrade(&self) -> Option<Link> {
        self.0.upgrade().map(|shared| Link { shared })
    }
}

impl Shared {
    /// If the server has changed, switches to a client of the new one.
    fn follow(&self, live: &mut Live) {
        let version = self.locator.version();
        if live.version == version {
            return;
        }
        let server = self.locator.current();
        live.version = version;
        if server == live.server {
            return;
        }
        // Only the same connection can confirm what was written over it.
        if self.role == Role::Confirming {
            live.task.iter().for_each(ConnectHandle::abort);
            return;
        }
        if live.task.is_some() {
            tracing::info!(from = ?live.server.hosts(), to = ?server.hosts(), "the keys moved to another redis server");
        }
        live.server = server;
        self.replace(live);
    }

    fn rebuild(&self, live: &mut Live) {
        tracing::warn!("the redis client does not recover; creating a new one");
        self.replace(live);
    }

    fn replace(&self, live: &mut Live) {
        let client = setup::link_client(&self.access, &live.server, self.role, live.task.is_some());
        live.reconnections = client.reconnect_rx();
        live.xackdel.forget();
        if let Some(old) = live.task.take() {
            live.task = Some(client.connect());
            if live.silent_since.is_none() && self.locator.sentinels().is_none() {
                // The old server answers, so it may finish the commands in flight. The answers of a former primary are
                // worthless.
                live.tasks.spawn(changes::retire(old));
            } else {
                old.abort();
            }
        }
        live.client = client;
        live.silent_since = None;
        // Commands that the old client leaves unanswered say nothing about the new one.
        live.last_answer = Instant::now();
        live.forced = false;
    }
}

impl Live {
    fn has_ended(&self) -> bool {
        self.task.as_ref().is_some_and(ConnectHandle::is_finished)
    }

    /// How often the client has reconnected since the last call.
    fn take_reconnects(&mut self) -> u64 {
        let mut times = 0;
        loop {
            times += match self.reconnections.try_recv() {
                Ok(_server) => 1,
                Err(broadcast::error::TryRecvError::Lagged(missed)) => missed,
                Err(_) => return times,
            };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(task) = &self.live.get_mut().unwrap_or_else(PoisonError::into_inner).task {
            task.abort();
        }
    }
}
