//! Sets up the Redis client: for a link, and for a single question to one server.

use std::pin::pin;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, FredResult};
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectError, ReconnectPolicy, ServerConfig,
};
use futures_util::poll;
use socket2::TcpKeepalive;
use tokio_util::task::AbortOnDropHandle;

use crate::client::error::Error;
use crate::client::link::Role;
use crate::client::tls;

/// The deadline of every command that does not block.
pub(crate) const COMMAND_DEADLINE: Duration = Duration::from_secs(5);

/// How long one attempt to connect, log in and select the database may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);

/// Creates a client of this server for the role. It is not connected yet. A patient client keeps trying if its first
/// connection fails.
pub(crate) fn link_client(access: &Config, server: &ServerConfig, role: Role, retries: bool) -> Client {
    let config = config_for(server, Config { fail_fast: !retries, ..access.clone() });
    let performance = PerformanceConfig {
        broadcast_channel_capacity: 256,
        default_command_timeout: match role {
            Role::Commands | Role::Confirming => COMMAND_DEADLINE,
            Role::Blocking => Duration::ZERO,
        },
        ..PerformanceConfig::default()
    };
    // The client's linear and exponential policies lose their jitter at the cap, so a fleet would return in step.
    let mut policy = ReconnectPolicy::new_constant(0, 200);
    policy.set_jitter(1_000);
    let policy = (role != Role::Confirming).then_some(policy);
    Client::new(config, Some(performance), Some(connection(CONNECT_DEADLINE)), policy)
}

/// Creates a client that connects once, and whose every step has this deadline.
pub(crate) fn query_client(access: &Config, server: &ServerConfig, deadline: Duration) -> Client {
    let config = config_for(server, Config { fail_fast: true, ..access.clone() });
    let performance = PerformanceConfig { default_command_timeout: deadline, ..PerformanceConfig::default() };
    Client::new(config, Some(performance), Some(connection(deadline)), None)
}

/// Makes the first connection of a client. It is closed when the handle is dropped, and also if the caller stops
/// waiting.
///
/// # Errors
///
/// Why the connection failed.
pub(crate) async fn connect_first(client: &Client) -> Result<AbortOnDropHandle<FredResult<()>>, Error> {
    let error = match tokio::time::timeout(3 * CONNECT_DEADLINE, Box::pin(connect(client))).await {
        Ok(Ok(task)) => return Ok(task),
        Ok(Err(error)) => Error::from_connect(&error),
        Err(_) => Error::Unreachable(format!("no connection within {:?}", 3 * CONNECT_DEADLINE)),
    };
    Err(tls::explained(error, &client.client_config()).await)
}

/// Connects a client, without a deadline of its own. The client's `init` leaves the connection open if it is dropped half-way.
pub(crate) async fn connect(client: &Client) -> FredResult<AbortOnDropHandle<FredResult<()>>> {
    let mut connected = pin!(client.wait_for_connect());
    // From its first poll on it notices the connection, however soon that is made.
    let is_awaited = poll!(&mut connected).is_pending();
    let task = AbortOnDropHandle::new(client.connect());
    if is_awaited {
        connected.await?;
    }
    Ok(task)
}

/// The configuration for this server, whose certificate is for the name in `[redis.tls]`, if any.
fn config_for(server: &ServerConfig, access: Config) -> Config {
    let mut config = Config { server: server.clone(), ..access };
    tls::name_servers(&mut config);
    config
}

fn connection(deadline: Duration) -> ConnectionConfig {
    // By default the client resends commands in flight up to three times, and follows redirections wrongly. Here a
    // broken connection means an unknown outcome, and only idempotent scripts are resent.
    let mut connection = ConnectionConfig {
        max_command_attempts: 1,
        max_redirections: 0,
        max_command_buffer_len: 10_000,
        connection_timeout: deadline,
        internal_command_timeout: deadline,
        ..ConnectionConfig::default()
    };
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
    connection
}
