//! Sessions of the console that ended early, because somebody logged out: known to every console.

use fred::types::{Key, Value};

use crate::Broker;
use crate::client::error::Error;
use crate::client::keys;
use crate::client::link::Link;
use crate::client::script::{args, scripts};

scripts! { SESSION_END "session_end", SESSION_ENDED "session_ended" }

/// The most logouts of one person that are kept. If there are more, their sessions that end no later than the first of these count as ended.
pub const MAX_LOGOUTS: i64 = 1000;

/// For how many seconds a logout is kept after its session would have ended: the clocks of consoles and Redis differ.
const KEPT_S: i64 = 3600;

/// The sessions of one person, or of whomever else a name stands for, that ended by a logout.
#[doc(hidden)]
#[derive(Clone)]
pub struct EndedSessions {
    link: Link,
    key: Key,
}

impl Broker {
    /// Gives access to the ended sessions of a person. `of` is a name without anything that a key may not contain, such as a digest.
    #[doc(hidden)]
    pub fn ended_sessions(&self, of: &str) -> EndedSessions {
        self.ended_sessions_in(keys::ended_sessions(self.namespace(), of))
    }

    /// Gives access to ended sessions that are kept in this key. Only a rehearsal names another one than
    /// [`Broker::ended_sessions`].
    pub(crate) fn ended_sessions_in(&self, key: Key) -> EndedSessions {
        EndedSessions { link: self.link_to(&key), key }
    }
}

impl EndedSessions {
    /// Notes that a session has ended that would have ended at `ends_s`, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn end(&self, nonce: &str, ends_s: u64) -> Result<(), Error> {
        let ends_s = ends(ends_s);
        let args = Vec::from(args![SESSION_END; nonce, ends_s, kept_s = KEPT_S, most = MAX_LOGOUTS]);
        self.link.run(&SESSION_END, vec![self.key.clone()], args).await.map(drop)
    }

    /// Returns true if a session that would end at `ends_s` has ended.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn contains(&self, nonce: &str, ends_s: u64) -> Result<bool, Error> {
        let args = Vec::from(args![SESSION_ENDED; nonce, ends_s = ends(ends_s), most = MAX_LOGOUTS]);
        Ok(self.link.run(&SESSION_ENDED, vec![self.key.clone()], args).await?.status == 1)
    }
}

fn ends(ends_s: u64) -> Value {
    i64::try_from(ends_s).unwrap_or(i64::MAX).into()
}
