//! Serves HTTP to anybody: a bounded number of connections, none of which a client can hold by sending or reading slowly.

mod connections;
mod host;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub use connections::{Bounds, Visitor, network_of};
use connections::{Connection, Connections, Stage};
pub use host::{host, names_no_site};

/// The largest head of a request, roughly. Nothing else counts what heads take, and anybody may send one on each connection.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// After a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// How long clients may take, and how many there may be.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How many connections may be open.
    pub bounds: Bounds,
    /// Whether a connection stays open for further requests, unless many are open.
    pub keep_alive: bool,
    /// The head of a request must be complete within this time. A kept connection may also be idle for that long.
    pub head: Duration,
    /// How long a client may read nothing of an answer that has come, in milliseconds.
    pub unread_ms: u32,
    /// How long a connection may last, if there is a bound.
    pub whole: Option<Duration>,
    /// How long requests in progress may take once the server stops.
    pub drain: Duration,
}

/// Answers requests until `stop` is done. Then it finishes those in progress.
pub async fn serve(listener: TcpListener, routes: Router, terms: Terms, stop: impl Future<Output = ()>) {
    let (mut open, stopping) = (Connections::new(terms.bounds), CancellationToken::new());
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok(client) => {
                    let place = tokio::select! {
                        biased;
                        () = &mut stop => break,
                        place = open.place(client.1.ip()) => place,
                    };
                    let terms = Terms { keep_alive: terms.keep_alive && !open.is_crowded(), ..terms };
                    connections.spawn(converse(client, place, terms, routes.clone(), stopping.clone()));
                }
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a server cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    stopping.cancel();
    let ending = async { while connections.join_next().await.is_some() {} };
    // A client that reads an endless answer must not keep the process running.
    if tokio::time::timeout(terms.drain, ending).await.is_err() {
        tracing::info!("a server closes connections that are still open");
    }
}

/// Returns true if the client was gone before it was accepted.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers the requests of one connection.
async fn converse(
    (stream, peer): (TcpStream, SocketAddr),
    place: Arc<Connection>,
    terms: Terms,
    routes: Router,
    stopping: CancellationToken,
) {
    // A client that does not read its answer loses the connection.
    if let Err(error) = sockopt::set_tcp_user_timeout(&stream, terms.unread_ms) {
        tracing::debug!(%error, "a server cannot bound how long a client may read nothing");
    }
    let asked = Arc::clone(&place);
    let service = routes.map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
        asked.note(Stage::Asked);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(Visitor::of(&asked));
        request.map(axum::body::Body::new)
    });
    let service = service.map_response(move |mut answer: Response| {
        if !terms.keep_alive {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(terms.head).max_buf_size(MAX_HEAD_BYTES);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let too_long = async {
        match terms.whole {
            Some(whole) => tokio::time::sleep(whole).await,
            None => pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = place.must_end() => return tracing::debug!(%peer, "a connection made room for another"),
        () = too_long => return tracing::debug!(%peer, "a connection lasted too long"),
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // Clients go away at any time.
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}
