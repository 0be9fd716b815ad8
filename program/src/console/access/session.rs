//! Sessions of people who logged in. A session is a cookie that the console signs, and nothing else: any console with the
//! same key accepts it.
//!
//! The signature covers a secret of the account, so a session ends when the password changes. It also ends after its lifetime,
//! and when the person logs out: Redis tells the other consoles. While it does not answer, a logout counts for this process,
//! which tells Redis later.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::Rng as _;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use streamfleet::Broker;
use streamfleet_engine::EndedSessions;
use streamfleet_engine::mutex::lock;

use super::digest;

/// The longest cookie that is looked at.
const MAX_BYTES: usize = 1024;

/// The most logouts that this process remembers. Redis has all others.
const MAX_ENDED: usize = 10_000;

/// How many logouts one request tells Redis of, at most.
const TOLD_AT_ONCE: usize = 100;

/// How long Redis may take to say whether a session has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// A key that signs sessions.
#[derive(Clone)]
pub(super) struct Key(Vec<u8>);

impl Key {
    /// The fewest bytes of a key from a file.
    pub(super) const LEAST_BYTES: usize = 32;

    /// A key that nobody else has.
    pub(super) fn random() -> Self {
        Self(random::<32>().to_vec())
    }

    /// The key of a file; `None` if it is too short.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.trim_ascii();
        (bytes.len() >= Self::LEAST_BYTES).then(|| Self(bytes.to_vec()))
    }

    fn sign(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length will do");
        for part in parts {
            // With its length before it, no part can pass for the beginning of the next.
            mac.update(&part.len().to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

/// How somebody logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// With name and password.
    Password,
    /// With the link that the console printed.
    Link,
}

/// Somebody who is logged in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) name: String,
    pub(super) way: Way,
    /// In seconds since 1970.
    ends: u64,
    nonce: String,
}

/// Signs sessions and checks them.
pub(super) struct Sessions {
    key: Key,
    lifetime: Duration,
    /// The nonces of sessions whose person logged out here, and when they would have ended.
    ended: Mutex<HashMap<String, u64>>,
    /// The sessions of which Redis does not know yet that they have ended.
    untold: Mutex<Vec<Session>>,
}

impl Sessions {
    pub(super) fn new(key: Key, lifetime: Duration) -> Self {
        Self { key, lifetime, ended: Mutex::default(), untold: Mutex::default() }
    }

    /// How long a session lasts.
    pub(super) fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// Begins a session; returns its cookie. `secret` is the secret of the account.
    pub(super) fn begin(&self, name: &str, way: Way, secret: &[u8]) -> String {
        let ends = now().saturating_add(self.lifetime.as_secs());
        let session = Session { name: name.to_owned(), way, ends, nonce: BASE64.encode(random::<16>()) };
        let text = serde_json::to_vec(&session).expect("a session has only texts and numbers");
        let signature = self.key.sign(&[b"session", &text, secret]).finalize().into_bytes();
        format!("{}.{}", BASE64.encode(&text), BASE64.encode(signature))
    }

    /// Returns the session of a cookie, if it is signed with the secret that `secret_of` returns for it, and has not ended.
    pub(super) fn check(
        &self,
        cookie: &str,
        secret_of: impl FnOnce(&Session) -> Option<Vec<u8>>,
    ) -> Option<Session> {
        if cookie.len() > MAX_BYTES {
            return None;
        }
        let (text, signature) = cookie.split_once('.')?;
        let (text, signature) = (BASE64.decode(text).ok()?, BASE64.decode(signature).ok()?);
        let session: Session = serde_json::from_slice(&text).ok()?;
        let secret = secret_of(&session)?;
        self.key.sign(&[b"session", &text, &secret]).verify_slice(&signature).ok()?;
        let ended = lock(&self.ended);
        (session.ends > now() && !ended.contains_key(&session.nonce)).then_some(session)
    }

    /// Returns true if the person has logged out of a session at another console. While Redis does not answer, nobody has.
    pub(super) async fn ended_elsewhere(&self, session: &Session, broker: &Broker) -> bool {
        let ended = session.ended_in(broker);
        let answer = tokio::time::timeout(PATIENCE, ended.contains(&session.nonce, session.ends)).await;
        let Ok(Ok(has_ended)) = answer else { return false };
        for _ in 0..TOLD_AT_ONCE {
            let untold = lock(&self.untold).first().cloned();
            let Some(untold) = untold else { break };
            if !self.tell(&untold, broker).await {
                break;
            }
        }
        has_ended
    }

    /// Ends a session everywhere.
    pub(super) async fn end(&self, session: &Session, broker: &Broker) {
        self.end_here(session);
        // Before Redis is asked: the browser may go away, and take this with it.
        self.keep_untold(session);
        self.tell(session, broker).await;
    }

    /// Tells Redis that a session has ended. Returns true if that has worked; otherwise it is told again later, after the others.
    async fn tell(&self, session: &Session, broker: &Broker) -> bool {
        let ended = session.ended_in(broker);
        let answer = tokio::time::timeout(PATIENCE, ended.end(&session.nonce, session.ends)).await;
        let is_told = matches!(answer, Ok(Ok(())));
        lock(&self.untold).retain(|untold| untold.nonce != session.nonce);
        if !is_told {
            tracing::warn!("redis has not recorded a logout: other consoles do not know of it yet");
            self.keep_untold(session);
        }
        is_told
    }

    fn keep_untold(&self, session: &Session) {
        let mut untold = lock(&self.untold);
        if untold.len() < MAX_ENDED {
            untold.push(session.clone());
        }
    }

    /// Ends a session in this process.
    fn end_here(&self, session: &Session) {
        let mut ended = lock(&self.ended);
        if ended.len() >= MAX_ENDED {
            let now = now();
            ended.retain(|_, ends| *ends > now);
        }
        if ended.len() < MAX_ENDED {
            ended.insert(session.nonce.clone(), session.ends);
        }
    }

    /// The token that every form of a session contains. Another site cannot know it.
    pub(super) fn csrf(&self, of: &[u8]) -> String {
        BASE64.encode(self.key.sign(&[b"csrf", of]).finalize().into_bytes())
    }

    /// A name of this state of something, which tells nothing about it: without the key, nobody can try whether a guess is right.
    pub(super) fn revision(&self, state: &[u8]) -> String {
        BASE64.encode(self.key.sign(&[b"revision", state]).finalize().into_bytes())
    }

    /// Returns true if this is the token.
    pub(super) fn is_csrf(&self, of: &[u8], token: &str) -> bool {
        let token = BASE64.decode(token).unwrap_or_default();
        self.key.sign(&[b"csrf", of]).verify_slice(&token).is_ok()
    }
}

impl Session {
    /// The sessions of this person that have ended.
    fn ended_in(&self, broker: &Broker) -> EndedSessions {
        let name: String = digest(&self.name).iter().map(|byte| format!("{byte:02x}")).collect();
        broker.ended_sessions(&name)
    }

    /// What its forms are bound to.
    pub(super) fn binding(&self) -> &[u8] {
        self.nonce.as_bytes()
    }
}

/// Random bytes, as text.
pub(in crate::console) fn random_text() -> String {
    BASE64.encode(random::<32>())
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}

#[expect(
    clippy::disallowed_methods,
    reason = "a session is between a browser and the console; Redis has no part in it"
)]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn sessions(lifetime: Duration) -> Sessions {
        Sessions::new(Key::of(&[7; 32]).unwrap(), lifetime)
    }

    #[test]
    fn a_session_is_what_was_signed() {
        let sessions = sessions(HOUR);
        let cookie = sessions.begin("ann", Way::Password, b"hash");
        let check = |cookie: &str, secret: &[u8]| sessions.check(cookie, |_| Some(secret.to_vec()));
        let session = check(&cookie, b"hash").unwrap();
        assert_eq!((session.name.as_str(), session.way), ("ann", Way::Password));
        assert_eq!(check(&cookie, b"another password"), None);
        let (text, signature) = cookie.split_once('.').unwrap();
        let forged = String::from_utf8(BASE64.decode(text).unwrap()).unwrap().replace("ann", "bob");
        assert_eq!(check(&format!("{}.{signature}", BASE64.encode(forged)), b"hash"), None);
        for broken in ["", ".", "a.b", &cookie[1..], &"x".repeat(2 * MAX_BYTES)] {
            assert_eq!(check(broken, b"hash"), None, "{broken}");
        }
        assert_ne!(sessions.begin("ann", Way::Password, b"hash"), cookie, "each login begins a new session");
    }

    #[test]
    fn a_session_ends_with_a_logout_or_its_time() {
        let brief = sessions(Duration::ZERO);
        let cookie = brief.begin("ann", Way::Link, b"");
        assert_eq!(brief.check(&cookie, |_| Some(Vec::new())), None);
        let sessions = sessions(HOUR);
        let cookie = sessions.begin("ann", Way::Link, b"");
        let session = sessions.check(&cookie, |_| Some(Vec::new())).unwrap();
        sessions.end_here(&session);
        assert_eq!(sessions.check(&cookie, |_| Some(Vec::new())), None);
    }

    #[test]
    fn a_csrf_token_belongs_to_one_session() {
        let sessions = sessions(HOUR);
        let token = sessions.csrf(b"one");
        assert!(sessions.is_csrf(b"one", &token));
        assert!(
            !sessions.is_csrf(b"two", &token)
                && !sessions.is_csrf(b"one", "")
                && !sessions.is_csrf(b"one", "A")
        );
    }

    #[test]
    fn a_revision_depends_on_the_key() {
        let (one, other) = (sessions(HOUR), Sessions::new(Key::random(), HOUR));
        assert_eq!(one.revision(b"a"), sessions(HOUR).revision(b"a"));
        assert_ne!(one.revision(b"a"), one.revision(b"b"));
        assert_ne!(one.revision(b"a"), other.revision(b"a"));
    }

    #[test]
    fn a_short_key_is_refused() {
        assert!(Key::of(&[b'x'; 31]).is_none() && Key::of(b"  x  ").is_none());
    }
}
