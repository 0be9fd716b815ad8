//! An HTTP client, without TLS.

use axum::body::Body;
use hyper::http::request::Builder;
use hyper::{Method, Response};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::client::SOON;

/// A client that keeps its connections.
#[derive(Clone)]
pub(super) struct Client(legacy::Client<HttpConnector, Body>);

/// A request that has not been sent yet.
pub(super) struct Request {
    client: Client,
    head: Builder,
    body: Body,
}

impl Client {
    pub(super) fn new() -> Self {
        Self(legacy::Client::builder(TokioExecutor::new()).build_http())
    }

    pub(super) fn request(&self, method: Method, address: String) -> Request {
        let head = Builder::new().method(method).uri(address);
        Request { client: self.clone(), head, body: Body::empty() }
    }
}

impl Request {
    pub(super) fn header(self, name: &str, value: &str) -> Self {
        Self { head: self.head.header(name, value), ..self }
    }

    pub(super) fn body(self, body: impl Into<Body>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// Sends it, and reads the head of the response.
    pub(super) async fn send(self) -> Response<Body> {
        let request = self.head.body(self.body).unwrap();
        let response = tokio::time::timeout(SOON, self.client.0.request(request)).await;
        response.expect("an answer in time").unwrap().map(Body::new)
    }
}
