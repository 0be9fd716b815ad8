//! Finds out who asks, and turns away those who ask too often, from another site, or under another host's name.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use secrecy::ExposeSecret as _;
use streamfleet_service::config::ConsoleSection;
use streamfleet_service::server::Visitor;
use tokio::sync::Semaphore;

use super::accounts::AccountsFile;
use super::limiter::Limiter;
use super::origin::{self, Hosts};
use super::person::Binding;
use super::proxy::Proxy;
use super::session::{Key, Session, Sessions, Way};
use super::{Accounts, Csrf, Grants, HasSession, InvalidAccounts, Person, headers, login};
use crate::console::api::{SESSION_PATH, asked_by};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::problem_kind::ProblemKind;

/// How many passwords of strangers are checked at once, and how many of people who have logged in from the same address. Each check
/// takes 19 MiB.
const PASSWORDS_AT_ONCE: usize = 1;

/// After this many wrong tokens, an address waits.
const WRONG_TOKENS: u32 = 20;

/// Knows who may use the console.
pub(in crate::console) struct Gatekeeper {
    pub(super) sessions: Sessions,
    pub(super) logins: login::Limits,
    pub(super) checking: Semaphore,
    pub(super) checking_familiar: Semaphore,
    /// The secret of the link that the console prints if there is no other way to log in.
    link: Option<String>,
    accounts: Option<AccountsFile>,
    proxy: Proxy,
    hosts: Hosts,
    is_https: bool,
    requests: Limiter<String>,
    wrong_tokens: Limiter<IpAddr>,
}

/// Why the console cannot decide who may use it.
#[derive(Debug, thiserror::Error)]
pub(in crate::console) enum NotOpened {
    #[error(transparent)]
    Accounts(#[from] InvalidAccounts),
    #[error("{0}")]
    Wrong(String),
}

/// How somebody was recognized.
enum Recognized {
    /// A program, by its token.
    Token,
    /// A browser, by something that it also sends if another site's page makes it.
    Browser { binding: Vec<u8>, session: Option<Session> },
}

impl Gatekeeper {
    /// Reads the accounts and the key.
    ///
    /// # Errors
    ///
    /// [`NotOpened`] if a file or a value is wrong, or if nobody could log in from elsewhere.
    pub(in crate::console) fn open(section: &ConsoleSection, listen: SocketAddr) -> Result<Self, NotOpened> {
        let public: Option<Uri> = section.public_url.as_deref().map(public_url).transpose()?;
        let accounts = section.accounts_file.as_deref().map(AccountsFile::open).transpose()?;
        let key = section.session_key_file.as_deref().map(read_key).transpose()?;
        let proxy = Proxy::new(&section.proxy).map_err(NotOpened::Wrong)?;
        let has_logins = accounts.is_some() || section.proxy.user_header.is_some();
        if !has_logins && !listen.ip().is_loopback() {
            let why = "others can reach this address, but nobody has to log in: set console.accounts_file, or listen on 127.0.0.1";
            return Err(NotOpened::Wrong(format!("console.listen: {listen}: {why}")));
        }
        let every = Duration::from_secs(1) / section.requests_per_second.max(1);
        Ok(Self {
            sessions: Sessions::new(key.unwrap_or_else(Key::random), section.session_lifetime),
            logins: login::Limits::default(),
            checking: Semaphore::new(PASSWORDS_AT_ONCE),
            checking_familiar: Semaphore::new(PASSWORDS_AT_ONCE),
            link: (!has_logins).then(super::random_text),
            accounts,
            proxy,
            hosts: Hosts::new(public.as_ref(), listen),
            is_https: public
                .and_then(|public| public.scheme_str().map(|scheme| scheme == "https"))
                .unwrap_or(false),
            requests: Limiter::new(section.requests_per_second.saturating_mul(2), every),
            wrong_tokens: Limiter::new(WRONG_TOKENS, Duration::from_secs(10)),
        })
    }

    /// The secret of the link to log in with, if there is no other way.
    pub(in crate::console) fn link(&self) -> Option<&str> {
        self.link.as_deref()
    }

    /// How people log in: with the link, with a password, or at a proxy.
    pub(in crate::console) fn way_in(&self) -> &'static str {
        match (&self.link, &self.accounts) {
            (Some(_), _) => "link",
            (None, Some(_)) => "password",
            (None, None) => "proxy",
        }
    }

    /// A name of this state of something, the same at all consoles with this key. It tells nothing about the state.
    pub(in crate::console) fn revision(&self, state: &[u8]) -> String {
        self.sessions.revision(state)
    }

    /// The accounts of now.
    pub(super) fn accounts(&self) -> Arc<Accounts> {
        self.accounts.as_ref().map(AccountsFile::now).unwrap_or_default()
    }

    /// The address of the client.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let of_proxy = || self.proxy.client(headers);
        if self.proxy.is_at(peer) { of_proxy().unwrap_or(peer) } else { peer }
    }

    /// The name of the session's cookie. Browsers accept the prefix only over HTTPS, and then from no other host.
    pub(super) fn cookie_name(&self, headers: &HeaderMap) -> &'static str {
        if self.is_secure(headers) { "__Host-streamfleet" } else { "streamfleet" }
    }

    /// Returns true if the browser uses HTTPS.
    pub(super) fn is_secure(&self, headers: &HeaderMap) -> bool {
        self.is_https && !origin::is_local(headers)
    }

    /// The session that a request's cookie stands for.
    pub(super) fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let cookie = cookie(headers, self.cookie_name(headers))?;
        let accounts = self.accounts();
        self.sessions.check(cookie, |session| match session.way {
            Way::Password => {
                let password = accounts.person(&session.name)?.password.as_ref()?;
                Some(password.expose_secret().as_bytes().to_vec())
            }
            Way::Link => self.link.clone().map(String::into_bytes),
        })
    }

    fn person_of(&self, session: &Session) -> Option<Person> {
        let grants = match session.way {
            Way::Password => self.accounts().person(&session.name)?.grants.clone(),
            Way::Link => Grants::all(),
        };
        Some(Person::new(&session.name, grants))
    }

    /// Finds out who asks.
    fn recognize(&self, peer: IpAddr, headers: &HeaderMap) -> Result<Option<(Person, Recognized)>, Problem> {
        // Proxies pass on the name and password that they have checked themselves.
        if let Some(token) = headers.get(header::AUTHORIZATION).and_then(bearer) {
            let person = self.of_token(token, self.client(peer, headers))?;
            return Ok(Some((person, Recognized::Token)));
        }
        if self.proxy.is_at(peer)
            && let Some((name, grants)) = self.proxy.person(headers)
        {
            let binding = format!("proxy {name}").into_bytes();
            return Ok(Some((Person::new(name, grants), Recognized::Browser { binding, session: None })));
        }
        let Some(session) = self.session(headers) else { return Ok(None) };
        let person = self.person_of(&session);
        let by = Recognized::Browser { binding: session.binding().to_vec(), session: Some(session) };
        Ok(person.map(|person| (person, by)))
    }

    fn of_token(&self, token: &str, client: IpAddr) -> Result<Person, Problem> {
        // A right one is never refused because of wrong ones: it has 256 bits, so that guesses at it need no bound.
        if let Some(account) = self.accounts().of_token(token) {
            return Ok(Person::new(&account.name, account.grants.clone()));
        }
        self.wrong_tokens.take(client).map_err(too_often)?;
        Err(Problem::new(ProblemKind::TokenNotValid, "send Authorization: Bearer <token>"))
    }
}

/// The token of a header `Authorization`, if it has one (RFC 6750, section 2.1).
fn bearer(sent: &HeaderValue) -> Option<&str> {
    let (scheme, token) = sent.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Reads the public address.
fn public_url(text: &str) -> Result<Uri, NotOpened> {
    let wrong = || {
        NotOpened::Wrong(format!(
            "console.public_url: is {text:?}, but must be like https://jobs.example.com"
        ))
    };
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let is_web = matches!(url.scheme_str(), Some("http" | "https"));
    if is_web && url.host().is_some() && matches!(url.path(), "" | "/") { Ok(url) } else { Err(wrong()) }
}

fn read_key(path: &Path) -> Result<Key, NotOpened> {
    let wrong =
        |why: String| NotOpened::Wrong(format!("console.session_key_file: {}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    Key::of(&bytes).ok_or_else(|| wrong(format!("has fewer than {} bytes", Key::LEAST_BYTES)))
}

/// The value of a cookie.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = sent.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(sent, _)| *sent == name).map(|(_, value)| value)
}

fn too_often(wait: Duration) -> Problem {
    let seconds = wait.as_secs().max(1);
    let why = format!("try again in {seconds} s");
    Problem::new(ProblemKind::TooManyRequests, why).retry_after(seconds)
}

/// What every request passes.
pub(super) async fn identified(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let is_https = app.gatekeeper.is_secure(request.headers());
    let mut response = match admitted(&app, request).await {
        Ok((request, who)) => asked_by(&who, next.run(request)).await,
        Err(problem) => problem.into_response(),
    };
    headers::add(response.headers_mut(), is_https);
    response
}

/// Lets a request in, and says who counts as its asker: the person or program, or else the address.
async fn admitted(app: &AppState, mut request: Request) -> Result<(Request, String), Problem> {
    let gatekeeper = &app.gatekeeper;
    let is_probe = request.uri().path() == "/healthz";
    // A kubelet's probe is sent to the address of a pod.
    if !is_probe && !gatekeeper.hosts.includes(request.headers()) {
        let why = "the console does not serve this host; if people reach it under this name, set console.public_url";
        return Err(Problem::new(ProblemKind::UnknownHost, why));
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip());
    let peer = peer.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
    let recognized = gatekeeper.recognize(peer, request.headers())?;
    let who = recognized.as_ref().map_or_else(
        || gatekeeper.client(peer, request.headers()).to_string(),
        |(person, _)| format!("={}", person.name()),
    );
    // A probe that others at its address crowd out would end the console.
    if !is_probe {
        gatekeeper.requests.take(who.clone()).map_err(too_often)?;
    }
    let changes = !origin::is_safe(request.method());
    if changes && !matches!(recognized, Some((_, Recognized::Token))) && origin::is_foreign(request.headers())
    {
        return Err(foreign("the browser says that another site's page sent this"));
    }
    let Some((person, by)) = recognized else { return Ok((request, who)) };
    // A session that has ended may end again, and a logout must not wait for Redis before it counts here.
    let may_have_ended = !is_logout(&request);
    if let Recognized::Browser { session: Some(session), .. } = &by
        && may_have_ended
        && gatekeeper.sessions.ended_elsewhere(session, &app.broker).await
    {
        return Ok((request, who));
    }
    if let Some(visitor) = request.extensions().get::<Visitor>() {
        visitor.vouch(person.name());
    }
    if let Recognized::Browser { binding, session } = by {
        request.extensions_mut().insert(Csrf(gatekeeper.sessions.csrf(&binding)));
        request.extensions_mut().insert(Binding(binding));
        if session.is_some() {
            request.extensions_mut().insert(HasSession);
        }
    }
    request.extensions_mut().insert(person);
    request.extensions_mut().insert(app.clone());
    Ok((request, who))
}

fn is_logout(request: &Request) -> bool {
    request.uri().path() == SESSION_PATH && request.method() == Method::DELETE
}

/// A change that our own pages did not ask for.
pub(super) fn foreign(why: &str) -> Problem {
    Problem::new(ProblemKind::NotFromHere, why)
}
