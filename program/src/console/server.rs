//! The listener: a bounded number of connections, none of which a client can hold by sending slowly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use streamfleet::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tower_http::timeout::RequestBodyTimeoutLayer;

/// How many connections may be open. Those that come later wait to be accepted.
const MAX_CONNECTIONS: usize = 2048;

/// The head of a request must be complete within this time. A kept connection may also be idle for so long.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// A pause within a body may be this long.
const BODY_PAUSE: Duration = Duration::from_secs(20);

/// How long a client may read nothing of an answer that has come, in milliseconds.
const UNREAD_MS: u32 = 60_000;

/// The largest head of a request, roughly.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How long requests in progress may take once the process is asked to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// An open port.
pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Opens the port.
    ///
    /// # Errors
    ///
    /// If it is in use or not permitted.
    pub(super) async fn open(listen: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen).await.with_context(|| {
            format!(
                "console.listen: {listen} cannot be used; choose another address, for example with --listen"
            )
        })?;
        let address = listener.local_addr().context("failed to read the listener's address")?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that the system chose for port 0.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until it is asked to stop. Then it finishes those in progress.
    pub(super) async fn run(self, routes: Router, shutdown: Shutdown) {
        let routes = routes.layer(RequestBodyTimeoutLayer::new(BODY_PAUSE));
        let (permits, stopping) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), CancellationToken::new());
        let mut connections = JoinSet::new();
        loop {
            let accepting = async {
                let permit =
                    Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
                (self.listener.accept().await, permit)
            };
            tokio::select! {
                biased;
                () = shutdown.requested() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                (accepted, permit) = accepting => match accepted {
                    Ok((stream, peer)) => {
                        let serving = serve(stream, peer, routes.clone(), stopping.clone());
                        connections.spawn(async move {
                            serving.await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the console cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        stopping.cancel();
        let ending = async { while connections.join_next().await.is_some() {} };
        // A client that reads an endless answer must not keep the process running.
        if tokio::time::timeout(DRAIN, ending).await.is_err() {
            tracing::info!("the console closes connections that are still open");
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, routes: Router, stopping: CancellationToken) {
    // A client that does not read its answer loses the connection.
    if let Err(error) = sockopt::set_tcp_user_timeout(&stream, UNREAD_MS) {
        tracing::debug!(%error, "the console cannot bound how long a client may read nothing");
    }
    let service = routes.map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.map(axum::body::Body::new)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // Clients go away at any time.
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the console ended");
    }
}
