//! Connections over TCP, with or without TLS, that are made within a bounded time.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

/// How long a connection is silent before TCP asks the peer whether it is still there, and how long between questions.
const SILENCE: Duration = Duration::from_secs(15);
/// How many questions may go unanswered.
const QUESTIONS: u32 = 3;
/// How long sent data may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Connects to the hosts of addresses.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    inner: HttpsConnector<HttpConnector>,
    patience: Duration,
}

impl Connector {
    pub(super) fn new(tls: ClientConfig, patience: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(SILENCE));
        tcp.set_keepalive_interval(Some(SILENCE));
        tcp.set_keepalive_retries(Some(QUESTIONS));
        tcp.set_connect_timeout(Some(patience));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let inner = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        Self { inner: inner.wrap_connector(tcp), patience }
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, patience) = (self.inner.call(uri), self.patience);
        Box::pin(async move {
            match tokio::time::timeout(patience, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("no connection within {patience:?}").into()),
            }
        })
    }
}
