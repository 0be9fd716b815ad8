//! A connection to one sentinel, which receives its announcements and polls it regularly.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, EventInterface, FredResult, PubsubInterface};
use fred::types::config::{Config, Server, ServerConfig};
use fred::types::{ClusterHash, CustomCommand, Message, RespVersion, Value};
use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use super::announcement::{self, Announcement};
use super::opinion::View;
use crate::client::decode;
use crate::client::error::{Class, Error};
use crate::client::setup;
use crate::job::jittered;

/// How long a sentinel may take to accept a login or to answer.
const DEADLINE: Duration = Duration::from_secs(2);

/// How often a sentinel that announces nothing is asked. This also shows whether it still answers, and makes up for
/// announcements that its ACL may keep from us.
const ASKED_EVERY: Duration = Duration::from_secs(3);

/// The shortest time between two questions to a sentinel, whatever happens.
const ASKED_AT_MOST_EVERY: Duration = Duration::from_millis(500);

/// The pauses between attempts to reach a sentinel that does not answer.
const FIRST_PAUSE: Duration = Duration::from_millis(300);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Listens to one sentinel.
pub(super) struct Listener {
    pub(super) shared: Arc<Shared>,
    /// Its position among the sentinels.
    pub(super) nth: usize,
    /// How to log in there.
    pub(super) config: Config,
}

impl Listener {
    /// Returns the configuration for a sentinel, from that of the primary and what the address says about sentinels.
    pub(super) fn config(
        base: &Config,
        sentinel: Server,
        username: Option<String>,
        password: Option<String>,
    ) -> Config {
        Config {
            server: ServerConfig::Centralized { server: sentinel },
            // RESP3 has a separate type for announcements, and other commands can share the connection.
            version: RespVersion::RESP3,
            username,
            password,
            database: None,
            fail_fast: true,
            ..base.clone()
        }
    }

    /// Listens until the task is aborted.
    pub(super) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let view = match self.connect().await {
                Ok(mut guard) => {
                    pause = FIRST_PAUSE;
                    self.listen(&mut guard).await
                }
                Err(view) => view,
            };
            tracing::debug!(sentinel = self.nth, ?view, "a sentinel is not available");
            self.shared.note_answer(self.nth, view);
            tokio::select! {
                () = tokio::time::sleep(spread(pause)) => {}
                // If the primary behaves oddly, the pause is cut short.
                () = self.shared.doubted.notified() => tokio::time::sleep(spread(ASKED_AT_MOST_EVERY)).await,
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Connects and logs in.
    async fn connect(&self) -> Result<Guard, View> {
        let client = setup::query_client(&self.config, &self.config.server, DEADLINE);
        let late = |_elapsed| View::Silent(format!("no connection within {:?}", 2 * DEADLINE));
        let connected = tokio::time::timeout(2 * DEADLINE, Box::pin(setup::connect_first(&client))).await;
        let task = connected.map_err(late)?.map_err(|error| view(&error))?;
        Ok(Guard { client, task })
    }

    /// Listens and asks until that fails; returns why.
    async fn listen(&self, guard: &mut Guard) -> View {
        let mut messages = guard.client.message_rx();
        // The client does not wait for the answer to a subscription.
        let channels = Announcement::CHANNELS.map(str::to_owned).to_vec();
        if let Err(error) = Box::pin(guard.client.subscribe(channels)).await {
            return view(&Error::from_client("subscribe", &error));
        }
        loop {
            match self.ask(&guard.client).await {
                view @ (View::Primary(_) | View::UnknownService) => self.shared.note_answer(self.nth, view),
                failed @ (View::Silent(_) | View::Refused(_) | View::NotAsked) => return failed,
            }
            tokio::select! {
                () = self.receive(&mut messages) => {}
                _ = &mut guard.task => return View::Silent("the connection was closed".to_owned()),
            }
        }
    }

    /// Processes announcements until it is time to ask.
    async fn receive(&self, messages: &mut broadcast::Receiver<Message>) {
        let asked = tokio::time::Instant::now();
        let mut due = std::pin::pin!(tokio::time::sleep(spread(ASKED_EVERY)));
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => self.handle_message(&message),
                    Err(_missed) => return,
                },
                () = &mut due => return,
                () = self.shared.doubted.notified() => {
                    let soon = asked + spread(ASKED_AT_MOST_EVERY);
                    let due_then = due.deadline().min(soon);
                    due.as_mut().reset(due_then);
                }
            }
        }
    }

    fn handle_message(&self, message: &Message) {
        let text = decode::text(&message.value);
        if let Some(announcement) = Announcement::read(&self.shared.service, &message.channel, &text) {
            tracing::info!(channel = &*message.channel, message = text, "a sentinel announced a change");
            self.shared.note_announcement(self.nth, announcement);
        }
    }

    async fn ask(&self, client: &Client) -> View {
        let command = CustomCommand::new_static("SENTINEL", ClusterHash::Random, false);
        let args: Vec<Value> = vec!["GET-MASTER-ADDR-BY-NAME".into(), self.shared.service.as_str().into()];
        match Box::pin(client.custom::<Value, Value>(command, args)).await {
            Ok(reply) => read(&reply),
            Err(error) => view(&Error::from_client("sentinel", &error)),
        }
    }
}

/// A client whose task ends with it.
struct Guard {
    client: Client,
    task: AbortOnDropHandle<FredResult<()>>,
}

/// Reads the answer to the question for the primary.
fn read(reply: &Value) -> View {
    if reply.is_null() {
        return View::UnknownService;
    }
    let parts = if let Value::Array(parts) = reply { &parts[..] } else { &[] };
    let named = if let [host, port] = parts {
        announcement::server(&decode::text(host), &decode::text(port))
    } else {
        None
    };
    named.map_or_else(|| View::Refused("returns something that is not an address".to_owned()), View::Primary)
}

/// What an error shows about a sentinel.
fn view(error: &Error) -> View {
    match error {
        Error::Refused { class, detail, .. } => refusal(*class, detail),
        Error::Unreachable(why) | Error::Unknown { detail: why, .. } => View::Silent(why.clone()),
        Error::Contract { .. } | Error::Address(_) => View::Silent(error.to_string()),
    }
}

fn refusal(class: Class, detail: &str) -> View {
    View::Refused(match detail.split(' ').next().unwrap_or_default() {
        "WRONGPASS" => format!("rejects the login; see sentinelUsername and sentinelPassword ({detail})"),
        "NOAUTH" => "asks for a password, and the address has no sentinelPassword".to_owned(),
        "NOPERM" => format!("accepts this user, but denies it commands that a client needs ({detail})"),
        _ if detail.starts_with("ERR unknown command") => "is not a sentinel".to_owned(),
        _ if class == Class::Configuration => format!("rejects the login ({detail})"),
        _ => return View::Silent(detail.to_owned()),
    })
}

/// Adds jitter, so that a fleet does not ask in step.
fn spread(pause: Duration) -> Duration {
    jittered(pause, 0.5..1.5, rand::random())
}
