//! The console's port.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use streamfleet::Shutdown;
use streamfleet_service::server::{Bounds, Terms, serve};
use tokio::net::TcpListener;
use tower_http::timeout::RequestBodyTimeoutLayer;

/// What the console demands of its clients.
const TERMS: Terms = Terms {
    bounds: Bounds { crowded_from: 2048, most: 2560 },
    keep_alive: true,
    head: Duration::from_secs(20),
    unread_ms: 60_000,
    whole: None,
    drain: Duration::from_secs(5),
};

/// A pause within a body may be this long.
const BODY_PAUSE: Duration = Duration::from_secs(20);

/// An open port.
pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    terms: Terms,
    body_pause: Duration,
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
        Ok(Self { listener, address, terms: TERMS, body_pause: BODY_PAUSE })
    }

    /// The address, with the port that the system chose for port 0.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until it is asked to stop. Then it finishes those in progress.
    pub(super) async fn run(self, routes: Router, shutdown: Shutdown) {
        let routes = routes.layer(RequestBodyTimeoutLayer::new(self.body_pause));
        serve(self.listener, routes, self.terms, shutdown.requested()).await;
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
    use tokio::net::TcpStream;
    use tokio::sync::Notify;
    use tokio::task::JoinSet;

    use super::*;

    /// How long anything may take on a very busy machine.
    const SOON: Duration = Duration::from_secs(60);

    const SHORT: Duration = Duration::from_millis(200);

    /// Notifies somebody when it is dropped.
    struct Dropped(Arc<Notify>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    /// Serves an answer without end, and one about a whole body, until it is stopped. Clients may pause for this long.
    async fn start(dropped: Arc<Notify>, pause: Duration) -> (SocketAddr, Shutdown, JoinSet<()>) {
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
        let bounds = Bounds { crowded_from: 4, most: 8 };
        let unread_ms = u32::try_from(pause.as_millis()).unwrap().max(500);
        server.terms = Terms { bounds, head: pause, unread_ms, ..TERMS };
        server.body_pause = pause;
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
    async fn those_who_say_or_read_nothing_keep_nobody_out() {
        let (address, shutdown, mut running) = start(Arc::default(), SOON).await;
        let mut silent = Vec::new();
        for nth in 0..20 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            if nth >= 10 {
                stream.write_all(b"GET /endless HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.unwrap();
                let mut begun = [0; 12];
                let read = tokio::time::timeout(SOON, stream.read_exact(&mut begun)).await;
                read.expect("an answer begins").unwrap();
            }
            silent.push(stream);
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
