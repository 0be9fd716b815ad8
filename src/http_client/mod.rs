//! The HTTP client that posts to the endpoints of handlers, sinks and collectors. It speaks HTTP/1.1, keeps connections
//! open, and takes no proxy from the environment. It never follows a redirect, unpacks a body, or sends a request twice.

mod connector;
mod response;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

use connector::Connector;
pub use response::Response;

/// How long a connection that nobody uses stays open.
const IDLE: Duration = Duration::from_secs(90);

/// A client with its connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: legacy::Client<Connector, Full<Bytes>>,
}

/// Why there is no response, or only a part of it. No text contains the address, which may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the address cannot be sent")]
    Address(#[source] hyper::http::uri::InvalidUri),
    #[error("error sending request")]
    Request(#[source] legacy::Error),
    #[error("error reading the response")]
    Response(#[source] hyper::Error),
}

impl Error {
    /// Returns what happened, and why.
    pub fn with_causes(&self) -> String {
        let (mut text, mut source) = (self.to_string(), std::error::Error::source(self));
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    /// Whether nothing of the request has left this process.
    pub fn sent_nothing(&self) -> bool {
        match self {
            Self::Address(_) => true,
            Self::Request(error) => error.is_connect(),
            Self::Response(_) => false,
        }
    }
}

impl HttpClient {
    /// Creates a client for addresses with the scheme of `url`. Connecting, with TLS, takes at most `patience`.
    ///
    /// # Errors
    ///
    /// TLS cannot be set up, most often because there are no root certificates.
    pub fn open(url: &Url, patience: Duration) -> Result<Self, rustls::Error> {
        let connector = Connector::new(crate::tls::config(url.scheme())?, patience);
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Ok(Self { client })
    }

    /// Posts `body` to `url`. If this is dropped before the response has been read, the connection is closed.
    pub async fn post(&self, url: &Url, headers: HeaderMap, body: Bytes) -> Result<Response, Error> {
        let uri: Uri = url.as_str().parse().map_err(Error::Address)?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("streamfleet/", env!("CARGO_PKG_VERSION"))));
        self.client.request(request).await.map(Response::new).map_err(Error::Request)
    }
}
