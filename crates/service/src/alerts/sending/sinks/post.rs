//! Posts messages to an address, which is a secret: most contain a token.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::Request;
use streamfleet::http_client::{Error, HttpClient};

const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of a response that are read.
const BODY_BYTES: usize = 16 * 1024;

/// The longest pause that a sink can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A shorter part of an address or a secret is no secret of its own, and may stand in any text.
const SHORTEST_SECRET: usize = 8;

/// An address that messages are posted to.
pub(super) struct Post {
    client: HttpClient,
    url: Url,
    /// What no text may contain.
    secrets: Vec<SecretString>,
}

/// A response.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    /// How long the sink wants to be left alone.
    pub(super) pause: Option<Duration>,
    /// Its beginning, without secrets.
    pub(super) body: Vec<u8>,
}

impl Post {
    pub(super) fn open(url: &SecretString, secret: Option<SecretString>) -> Result<Self, String> {
        let url = address(url)?;
        let client = HttpClient::open(&url, CONNECT_TIMEOUT)
            .map_err(|error| format!("url_file: cannot create a client: {error}"))?;
        let secrets = parts(&url).chain(secret).collect();
        Ok(Self { client, url, secrets })
    }

    /// Posts once. An error does not say whether the message has arrived.
    pub(super) async fn send(&self, request: Request) -> Result<Reply, String> {
        let mut url = self.url.clone();
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(request.query);
        }
        let headers = headers(request.headers)?;
        let reply = async {
            let mut response = self.client.post(&url, headers, request.body.into()).await?;
            let (status, pause) = (response.status(), response.pause(LONGEST_PAUSE));
            let mut body = Vec::new();
            response.read(&mut body, BODY_BYTES).await?;
            Ok(Reply { status, pause, body })
        };
        let mut reply = match tokio::time::timeout(TIMEOUT, reply).await {
            Ok(reply) => reply.map_err(|error: Error| self.without_secrets(&error.with_causes()))?,
            Err(_) => return Err(format!("did not answer within {} s", TIMEOUT.as_secs())),
        };
        reply.body = self.without_secrets(&String::from_utf8_lossy(&reply.body)).into_bytes();
        Ok(reply)
    }

    fn without_secrets(&self, text: &str) -> String {
        let secrets = self.secrets.iter().map(|secret| secret.expose_secret());
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }
}

/// The parts of an address that may be tokens.
fn parts(url: &Url) -> impl Iterator<Item = SecretString> {
    let values: Vec<String> = url.query_pairs().map(|(_, value)| value.into_owned()).collect();
    let path: Vec<String> = url.path_segments().into_iter().flatten().map(str::to_owned).collect();
    let query = url.query().map(str::to_owned);
    let all = values.into_iter().chain(path).chain(query);
    all.filter(|part| part.len() >= SHORTEST_SECRET).map(SecretString::from)
}

fn address(url: &SecretString) -> Result<Url, String> {
    // The error does not quote the address.
    let url =
        Url::parse(url.expose_secret()).map_err(|error| format!("url_file: is not an address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("url_file: must begin with https:// or http:// and name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("url_file: must have no user or password".to_owned());
    }
    Ok(url)
}

fn headers(own: Vec<(&'static str, String)>) -> Result<HeaderMap, String> {
    let content_type = HeaderValue::from_static("application/json; charset=utf-8");
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
    for (name, value) in own {
        let value = HeaderValue::from_str(&value).map_err(|error| format!("{name}: {error}"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_has_a_token_or_the_secret() {
        let url = "https://example.com/hook/0123456789?access_token=canary%2B9876";
        let post = Post::open(&url.into(), Some("s3cret-s3cret".into())).unwrap();
        let text = post
            .without_secrets("0123456789 canary+9876 access_token=canary%2B9876 s3cret-s3cret example.com");
        assert_eq!(text, "*** *** *** *** example.com");
    }

    #[test]
    fn an_address_is_checked_without_being_shown() {
        for url in ["canary", "ftp://canary/x", "https://canary:p@example.com/", "http://"] {
            let error = address(&url.into()).unwrap_err();
            assert!(error.starts_with("url_file: ") && !error.contains("canary"), "{error}");
        }
    }
}
