//! Logging in and out.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier as _};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use streamfleet_engine::mutex::lock;
use streamfleet_service::server::network_of;
use tokio::sync::Semaphore;

use super::accounts::MAX_NAME_BYTES;
use super::gatekeeper::{Gatekeeper, foreign};
use super::limiter::Limiter;
use super::origin;
use super::person::Binding;
use super::session::Way;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;

/// The header that a browser sends with every change.
const CSRF_HEADER: HeaderName = HeaderName::from_static("x-csrf-token");

/// A hash that no password has, so that unknown names take as long as known ones.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c3RyZWFtZmxlZXQtbm9ib2R5$ZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmY";

/// The bytes of a salt, as RFC 9106 recommends.
const SALT_BYTES: usize = 16;

/// How many names with addresses are remembered.
const MAX_FAMILIAR: usize = 10_000;

/// How often logins may fail. Nothing bounds how often they fail for one name from anywhere: with such a bound, anybody could lock
/// out the person who has that name.
pub(super) struct Limits {
    /// For one name from one address.
    pair: Limiter<(String, IpAddr)>,
    /// For all names from one address.
    address: Limiter<IpAddr>,
    /// Names with the addresses from which these people have logged in.
    familiar: Mutex<HashSet<(String, IpAddr)>>,
    reports: Limiter<()>,
    /// How many failures the log does not have.
    unreported: AtomicU64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pair: Limiter::new(5, Duration::from_secs(60)),
            address: Limiter::new(20, Duration::from_secs(30)),
            familiar: Mutex::default(),
            reports: Limiter::new(20, Duration::from_secs(1)),
            unreported: AtomicU64::new(0),
        }
    }
}

impl Limits {
    /// Takes an attempt. The address comes first, so that one that is refused leaves no trace of the names it tries.
    fn take(&self, name: &str, client: IpAddr) -> Result<(), Duration> {
        let client = network_of(client);
        self.address.take(client)?;
        self.pair.take((name.to_owned(), client))
    }

    /// Logs a failure, without the name: some people type their password there. Many failures do not fill the log.
    fn report(&self, client: IpAddr, why: &'static str) {
        if self.reports.take(()).is_err() {
            self.unreported.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let unreported = self.unreported.swap(0, Ordering::Relaxed);
        tracing::warn!(%client, why, unreported, "a login to the console failed");
    }

    /// Gives it back: it was right. From now on, this person is familiar there.
    fn give_back(&self, name: &str, client: IpAddr) {
        let client = network_of(client);
        let pair = (name.to_owned(), client);
        self.pair.give_back(&pair);
        self.address.give_back(&client);
        let mut familiar = lock(&self.familiar);
        // Only those who have a password can fill it.
        if familiar.len() >= MAX_FAMILIAR {
            familiar.clear();
        }
        familiar.insert(pair);
    }

    /// Whether this person has logged in from there before.
    fn is_familiar(&self, name: &str, client: IpAddr) -> bool {
        let familiar = lock(&self.familiar);
        familiar.contains(&(name.to_owned(), network_of(client)))
    }
}

/// Begins a session for those who have the secret of the link that the console printed. Returns its cookie.
pub(in crate::console) fn by_link(
    gatekeeper: &Gatekeeper,
    headers: &HeaderMap,
    key: &SecretString,
) -> Option<HeaderValue> {
    let link = gatekeeper.link().filter(|link| is_same(link, key.expose_secret()))?;
    Some(begun(gatekeeper, headers, (&crate::actor::user(), Way::Link, link.as_bytes())))
}

fn is_same(one: &str, other: &str) -> bool {
    // Compared by digest, so that the time it takes tells nothing.
    super::digest(one) == super::digest(other)
}

/// Why somebody is not logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console) enum NotLoggedIn {
    /// The name or the password is wrong.
    Wrong,
    /// There were too many attempts. The next one may come after this time.
    Wait(Duration),
}

/// Checks the name and the password of somebody at this address, and begins a session. Returns its cookie.
///
/// # Errors
///
/// [`NotLoggedIn`].
pub(in crate::console) async fn by_password(
    gatekeeper: &Gatekeeper,
    (peer, headers): (IpAddr, &HeaderMap),
    name: String,
    password: SecretString,
) -> Result<HeaderValue, NotLoggedIn> {
    let client = gatekeeper.client(peer, headers);
    // Nobody has a longer name, and the limits keep names.
    let name = if name.len() <= MAX_NAME_BYTES { name } else { String::new() };
    if let Err(wait) = gatekeeper.logins.take(&name, client) {
        gatekeeper.logins.report(client, "too many attempts");
        return Err(NotLoggedIn::Wait(wait));
    }
    let known = gatekeeper.accounts().person(&name).and_then(|account| account.password.clone());
    let hash = known.clone().unwrap_or_else(|| NOBODY.into());
    // Strangers at many addresses make only other strangers wait.
    let is_familiar = gatekeeper.logins.is_familiar(&name, client);
    let checking = if is_familiar { &gatekeeper.checking_familiar } else { &gatekeeper.checking };
    let is_right = verified(checking, hash.clone(), password).await && known.is_some();
    if !is_right {
        gatekeeper.logins.report(client, "the name or the password is wrong");
        return Err(NotLoggedIn::Wrong);
    }
    gatekeeper.logins.give_back(&name, client);
    Ok(begun(gatekeeper, headers, (&name, Way::Password, hash.expose_secret().as_bytes())))
}

/// Checks a password, which takes long on purpose.
async fn verified(checking: &Semaphore, hash: SecretString, password: SecretString) -> bool {
    let Ok(_permit) = checking.acquire().await else { return false };
    let check = move || {
        let hash = PasswordHash::new(hash.expose_secret());
        let right = |hash| Argon2::default().verify_password(password.expose_secret().as_bytes(), &hash);
        hash.is_ok_and(|hash| right(hash).is_ok())
    };
    tokio::task::spawn_blocking(check).await.unwrap_or(false)
}

/// Returns the hash of a password, for the file of accounts.
///
/// # Errors
///
/// If the password cannot be hashed.
pub(in crate::console) fn hash_password(password: &SecretString) -> anyhow::Result<String> {
    let salt = super::random_text();
    let argon2 = Argon2::default();
    let hash = PasswordHasher::<PasswordHash>::hash_password_with_salt(
        &argon2,
        password.expose_secret().as_bytes(),
        &salt.as_bytes()[..SALT_BYTES],
    );
    Ok(hash.map_err(|error| anyhow::anyhow!("failed to hash the password: {error}"))?.to_string())
}

/// Begins a session. Returns its cookie.
fn begun(
    gatekeeper: &Gatekeeper,
    headers: &HeaderMap,
    (name, way, secret): (&str, Way, &[u8]),
) -> HeaderValue {
    let value = gatekeeper.sessions.begin(name, way, secret);
    cookie(gatekeeper, headers, &value, gatekeeper.sessions.lifetime().as_secs())
}

/// The cookie of a session, for this many seconds.
fn cookie(gatekeeper: &Gatekeeper, headers: &HeaderMap, value: &str, age: u64) -> HeaderValue {
    let secure = if gatekeeper.is_secure(headers) { "; Secure" } else { "" };
    let name = gatekeeper.cookie_name(headers);
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age}{secure}");
    HeaderValue::from_str(&cookie).expect("it has only base64 and fixed texts")
}

/// Ends the session of a request, if it has one. Returns the cookie that takes the place of the session's.
pub(in crate::console) async fn end_session(app: &AppState, headers: &HeaderMap) -> HeaderValue {
    let gatekeeper = &app.gatekeeper;
    if let Some(session) = gatekeeper.session(headers) {
        gatekeeper.sessions.end(&session, &app.broker).await;
    }
    cookie(gatekeeper, headers, "", 0)
}

/// Checks the token of a change that a browser asks for, so that no other site's page can ask for it. Programs need none.
///
/// # Errors
///
/// [`Problem`] with the status 403 if the token is missing or is not that of this session.
pub(super) fn from_our_page(request: &Parts) -> Result<(), Problem> {
    let (binding, app) = (request.extensions.get::<Binding>(), request.extensions.get::<AppState>());
    let (Some(Binding(binding)), Some(app)) = (binding, app) else { return Ok(()) };
    let token = request.headers.get(CSRF_HEADER).and_then(|token| token.to_str().ok());
    let is_right = token.is_some_and(|token| app.gatekeeper.sessions.is_csrf(binding, token));
    if is_right || origin::is_safe(&request.method) {
        return Ok(());
    }
    Err(foreign("the header X-CSRF-Token has no token of this session: GET /api/v1/session has it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hashed_password_is_verified() {
        let hash = hash_password(&"correct horse".into()).unwrap();
        let hash = PasswordHash::new(&hash).unwrap();
        assert!(Argon2::default().verify_password(b"correct horse", &hash).is_ok());
        assert!(Argon2::default().verify_password(b"wrong horse", &hash).is_err());
        let nobody = PasswordHash::new(NOBODY).unwrap();
        assert!(Argon2::default().verify_password(b"", &nobody).is_err());
        assert_eq!(nobody.params.to_string(), hash.params.to_string(), "an unknown name takes as long");
    }

    #[test]
    fn an_address_that_is_refused_leaves_no_names_behind() {
        let (limits, client) = (Limits::default(), "2001:db8::1".parse().unwrap());
        let taken = (0..100).filter(|nth| limits.take(&nth.to_string(), client).is_ok()).count();
        assert_eq!((taken, limits.pair.keys()), (20, 20));
        let neighbor = "2001:db8::ffff:2".parse().unwrap();
        assert!(limits.take("ann", neighbor).is_err(), "the same network");
        assert!(limits.take("ann", "2001:db8:0:1::1".parse().unwrap()).is_ok());
    }

    #[test]
    fn who_has_logged_in_is_familiar_there_only() {
        let (limits, client) = (Limits::default(), "2001:db8::1".parse().unwrap());
        assert!(!limits.is_familiar("ann", client));
        limits.give_back("ann", client);
        assert!(limits.is_familiar("ann", "2001:db8::ffff:2".parse().unwrap()), "the same network");
        assert!(!limits.is_familiar("bob", client));
        assert!(!limits.is_familiar("ann", "10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn many_failures_do_not_fill_the_log() {
        let (limits, client) = (Limits::default(), "10.0.0.1".parse().unwrap());
        for _ in 0..10_000 {
            limits.report(client, "too many attempts");
        }
        assert!(limits.unreported.load(Ordering::Relaxed) > 5_000);
    }
}
