//! The listener: a bounded number of connections, none of which a client can hold by sending slowly.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use streamfleet::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tower_http::timeout::RequestBodyTimeoutLayer;

use super::connections::{Connection, Connections};

/// How many connections may be open. Beyond that, silent ones make room.
const MAX_CONNECTIONS: usize = 2048;

/// How long the console waits for a client that sends or reads slowly.
const PATIENCE: Patience =
    Patience { head: Duration::from_secs(20), body_pause: Duration::from_secs(20), unread_ms: 60_000 };

/// The largest head of a request, roughly.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// How long requests in progress may take once the process is asked to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// The head of a request must be complete within this time. A kept connection may also be idle for so long.
    head: Duration,
    /// A pause within a body may be this long.
    body_pause: Duration,
    /// How long a client may read nothing of an answer that has come, in milliseconds.
    unread_ms: u32,
}

/// An open port.
pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    patience: Patience,
    most: usize,
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
        Ok(Self { listener, address, patience: PATIENCE, most: MAX_CONNECTIONS })
    }

    /// The address, with the port that the system chose for port 0.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until it is asked to stop. Then it finishes those in progress.
    pub(super) async fn run(self, routes: Router, shutdown: Shutdown) {
        let routes = routes.layer(RequestBodyTimeoutLayer::new(self.patience.body_pause));
        let (mut open, stopping) = (Connections::new(self.most), CancellationToken::new());
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok(client) => {
                        let place = tokio::select! {
                            () = shutdown.requested() => break,
                            place = open.place() => place,
                        };
                        let place = (place, open.is_crowded());
                        connections.spawn(serve(client, place, self.patience, routes.clone(), stopping.clone()));
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

async fn serve(
    (stream, peer): (TcpStream, SocketAddr),
    (place, is_crowded): (Arc<Connection>, bool),
    patience: Patience,
    routes: Router,
    stopping: CancellationToken,
) {
    // A client that does not read its answer loses the connection.
    if let Err(error) = sockopt::set_tcp_user_timeout(&stream, patience.unread_ms) {
        tracing::debug!(%error, "the console cannot bound how long a client may read nothing");
    }
    let noted = Arc::clone(&place);
    let service = routes.map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.map(axum::body::Body::new)
    });
    let service = service.map_response(move |mut answer: Response| {
        noted.note_answer();
        if is_crowded {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience.head).max_buf_size(MAX_HEAD_BYTES);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = place.must_end() => return tracing::debug!(%peer, "a silent connection to the console made room for another"),
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use axum::body::{Body, Bytes};
    use axum::routing::{get, post};
    use futures_util::stream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Notify;

    use super::*;

    /// How long anything may take on a very busy machine.
    const SOON: Duration = Duration::from_secs(60);

    const SHORT: Patience =
        Patience { head: Duration::from_millis(200), body_pause: Duration::from_millis(200), unread_ms: 500 };

    /// Notifies somebody when it is dropped.
    struct Dropped(Arc<Notify>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    /// Serves an answer without end, and one about a whole body, until it is stopped.
    async fn start(dropped: Arc<Notify>, patience: Patience) -> (SocketAddr, Shutdown, JoinSet<()>) {
        let endless = move || {
            let answer = Dropped(Arc::clone(&dropped));
            let chunks = stream::repeat_with(move || {
                let _held = &answer;
                Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 64 * 1024]))
            });
            async { Body::from_stream(chunks) }
        };
        let routes = Router::new()
            .route("/endless", get(endless))
            .route("/body", post(|body: Bytes| async move { body.len().to_string() }));
        let mut server = Server::open("127.0.0.1:0".parse().unwrap()).await.unwrap();
        (server.patience, server.most) = (patience, 4);
        let (address, shutdown) = (server.address(), Shutdown::new());
        let mut running = JoinSet::new();
        running.spawn(server.run(routes, shutdown.clone()));
        (address, shutdown, running)
    }

    /// Sends this, and returns everything that comes until the server ends the connection.
    async fn answer_to(address: SocketAddr, sent: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await;
        // A connection may also be reset.
        read.expect("the console ends the connection").ok();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_client_that_sends_too_slowly_is_cut_off() {
        let (address, shutdown, mut running) = start(Arc::default(), SHORT).await;
        for half in ["", "POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le"] {
            let answer = answer_to(address, half).await;
            assert!(!answer.contains(" 200 "), "{half}: {answer}");
        }
        let head = "POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\n";
        let answer = answer_to(address, &format!("{head}ab")).await;
        assert!(!answer.contains(" 200 "), "{answer}");
        let answer = answer_to(address, &format!("{head}abc")).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n3"), "{answer}");
        shutdown.request();
        running.join_next().await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_cut_off() {
        let dropped = Arc::<Notify>::default();
        let (address, shutdown, mut running) = start(Arc::clone(&dropped), SHORT).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /endless HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
        let cut = tokio::time::timeout(SOON, dropped.notified()).await;
        cut.expect("the console gives up the answer");
        drop(stream);
        shutdown.request();
        running.join_next().await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn those_who_say_nothing_keep_nobody_out() {
        let patience = Patience { head: SOON, body_pause: SOON, unread_ms: 60_000 };
        let (address, shutdown, mut running) = start(Arc::default(), patience).await;
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let asked =
            "POST /body HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
        for _ in 0..8 {
            let answer = answer_to(address, asked).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
        drop(silent);
        shutdown.request();
        running.join_next().await.unwrap().unwrap();
    }
}
