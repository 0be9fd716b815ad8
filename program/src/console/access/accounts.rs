//! The file of people and tokens: who may log in, and what they may do.
//!
//! A password is kept as a PHC string of Argon2id, a token as its SHA-256: it has 256 random bits, so nobody can guess it
//! from a fast hash. The file is read again when it changes. If it is then wrong, the accounts stay as they were.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use argon2::password_hash::phc::PasswordHash;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use streamfleet::job::QueueName;
use streamfleet_engine::mutex::lock;

use super::{Grants, Role};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The largest file that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// The longest name of an account.
pub(super) const MAX_NAME_BYTES: usize = 64;

/// The SHA-256 of a token.
type Digest = [u8; 32];

/// Everybody who may log in.
#[derive(Debug, Default)]
pub(in crate::console) struct Accounts {
    people: BTreeMap<String, Account>,
    tokens: HashMap<Digest, Account>,
}

/// Somebody who may log in.
#[derive(Debug, Clone)]
pub(in crate::console) struct Account {
    pub(in crate::console) name: String,
    pub(in crate::console) grants: Grants,
    /// The PHC string of the password, of a person.
    pub(super) password: Option<SecretString>,
}

/// The file's shape.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    people: BTreeMap<String, Entry>,
    #[serde(default)]
    tokens: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    password: Option<SecretString>,
    sha256: Option<String>,
    role: Option<Role>,
    #[serde(default)]
    queues: BTreeMap<String, Role>,
    payloads: Option<bool>,
}

/// Why the file cannot be used. Says nothing of its secrets.
#[derive(Debug, thiserror::Error)]
#[error("console.accounts_file: {}", self.reason())]
pub(in crate::console) struct InvalidAccounts {
    path: PathBuf,
    why: String,
}

impl InvalidAccounts {
    /// The file, and what is wrong with it.
    pub(in crate::console) fn reason(&self) -> String {
        format!("{}: {}", self.path.display(), self.why)
    }
}

impl Accounts {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// [`InvalidAccounts`] if it cannot be read, or an account in it is wrong.
    pub(in crate::console) fn read(path: &Path) -> Result<Self, InvalidAccounts> {
        Self::try_read(path).map_err(|why| InvalidAccounts { path: path.to_owned(), why })
    }

    fn try_read(path: &Path) -> Result<Self, String> {
        let bytes = fs::metadata(path).map_err(|error| error.to_string())?.len();
        if bytes > MAX_BYTES {
            return Err(format!("it has {bytes} bytes, but may have at most {MAX_BYTES}"));
        }
        Self::parse(&fs::read_to_string(path).map_err(|error| error.to_string())?)
    }

    fn parse(text: &str) -> Result<Self, String> {
        // The parser's message may quote the line, and the line may have a secret.
        let file: File = toml::from_str(text).map_err(|error| match error.span() {
            Some(span) => format!("line {}: {}", line_of(text, span.start), error.message()),
            None => error.message().to_owned(),
        })?;
        let mut accounts = Self::default();
        for (name, entry) in file.people {
            let account = person(&name, entry).map_err(|why| format!("people.{name}: {why}"))?;
            accounts.people.insert(name, account);
        }
        for (name, entry) in file.tokens {
            // The audit, limits and idempotency keys know somebody only by the name.
            if accounts.people.contains_key(&name) {
                return Err(format!("tokens.{name}: a person has the same name"));
            }
            let (digest, account) = token(&name, entry).map_err(|why| format!("tokens.{name}: {why}"))?;
            if accounts.tokens.insert(digest, account).is_some() {
                return Err(format!("tokens.{name}: another token has the same sha256"));
            }
        }
        Ok(accounts)
    }

    /// Returns the person of this name.
    pub(in crate::console) fn person(&self, name: &str) -> Option<&Account> {
        self.people.get(name)
    }

    /// Returns the account whose token this is.
    pub(in crate::console) fn of_token(&self, token: &str) -> Option<&Account> {
        // A lookup by digest tells nobody how much of a token was right.
        self.tokens.get(&digest(token))
    }
}

/// The digest under which a token is kept.
pub(in crate::console) fn digest(token: &str) -> Digest {
    Sha256::digest(token.as_bytes()).into()
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

fn person(name: &str, entry: Entry) -> Result<Account, String> {
    let Entry { password, sha256, .. } = &entry;
    let Some(password) = password.clone() else {
        return Err("has no password; `streamfleet console password` prints one".to_owned());
    };
    if sha256.is_some() {
        return Err("has a sha256, which is for tokens".to_owned());
    }
    let hash = PasswordHash::new(password.expose_secret());
    if !hash.is_ok_and(|hash| hash.algorithm.as_str().starts_with("argon2")) {
        return Err("the password must be a PHC string of argon2; `streamfleet console password` prints one"
            .to_owned());
    }
    account(name, entry, Some(password))
}

fn token(name: &str, entry: Entry) -> Result<(Digest, Account), String> {
    if entry.password.is_some() {
        return Err("has a password, which is for people".to_owned());
    }
    let wrong = "needs a sha256 of 64 hexadecimal digits; `streamfleet console token` prints one";
    let digest = entry.sha256.as_deref().and_then(from_hex).ok_or_else(|| wrong.to_owned())?;
    Ok((digest, account(name, entry, None)?))
}

fn account(name: &str, entry: Entry, password: Option<SecretString>) -> Result<Account, String> {
    let Entry { role, queues, payloads, .. } = entry;
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(format!("a name has 1 to {MAX_NAME_BYTES} bytes and no control characters"));
    }
    if role.is_none() && queues.is_empty() {
        return Err(
            "has no role; set role to viewer, submitter, operator or admin, or roles of single queues"
                .to_owned(),
        );
    }
    let named = |(queue, role): (String, Role)| match queue.parse::<QueueName>() {
        Ok(queue) => Ok((queue, role)),
        Err(error) => Err(format!("queues.{queue}: {error}")),
    };
    let queues = queues.into_iter().map(named).collect::<Result<BTreeMap<_, _>, _>>()?;
    let highest = role.max(queues.values().copied().max());
    let payloads = payloads.unwrap_or(highest >= Some(Role::Operator));
    Ok(Account { name: name.to_owned(), grants: Grants { everywhere: role, queues, payloads }, password })
}

fn from_hex(text: &str) -> Option<Digest> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut digest = Digest::default();
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

/// The accounts of a file that may change.
#[derive(Debug)]
pub(in crate::console) struct AccountsFile {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    accounts: Arc<Accounts>,
    /// When the file was last changed, as far as is known.
    changed: Option<SystemTime>,
    looked: Instant,
}

impl AccountsFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// The errors of [`Accounts::read`].
    pub(in crate::console) fn open(path: &Path) -> Result<Self, InvalidAccounts> {
        let changed = changed(path);
        let accounts = Arc::new(Accounts::read(path)?);
        let known = Known { accounts, changed, looked: Instant::now() };
        Ok(Self { path: path.to_owned(), known: Mutex::new(known) })
    }

    /// The accounts of now.
    pub(in crate::console) fn now(&self) -> Arc<Accounts> {
        let mut known = lock(&self.known);
        if known.looked.elapsed() >= LOOK_EVERY {
            known.looked = Instant::now();
            let changed = changed(&self.path);
            if changed != known.changed {
                known.changed = changed;
                match Accounts::read(&self.path) {
                    Ok(accounts) => known.accounts = Arc::new(accounts),
                    Err(error) => tracing::error!(%error, "the console's accounts stay as they were"),
                }
            }
        }
        Arc::clone(&known.accounts)
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str =
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$8nm8CdVxVQ1mHXQnPTVJgTMOLTMTVHXCXJTqJrFY2gI";

    #[test]
    fn people_and_tokens_have_the_roles_of_the_file() {
        let digest: String = digest("secret").iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!(
            "[people.ann]\npassword = \"{HASH}\"\nrole = \"viewer\"\nqueues = {{ mail = \"admin\" }}\n\
             [tokens.ci]\nsha256 = \"{digest}\"\nrole = \"submitter\"\n"
        );
        let accounts = Accounts::parse(&text).unwrap();
        let ann = accounts.person("ann").unwrap();
        assert_eq!(ann.grants.everywhere, Some(Role::Viewer));
        assert_eq!(ann.grants.queues.values().collect::<Vec<_>>(), [&Role::Admin]);
        assert!(ann.grants.payloads);
        let ci = accounts.of_token("secret").unwrap();
        assert_eq!((ci.name.as_str(), ci.grants.payloads), ("ci", false));
        assert!(accounts.of_token("secre").is_none() && accounts.person("ci").is_none());
    }

    #[test]
    fn a_wrong_file_is_refused_without_its_secrets() {
        for (text, why) in [
            ("[people.ann]\npassword = \"hunter2\"\nrole = \"viewer\"", "people.ann: the password must be"),
            ("[people.ann]\nrole = \"viewer\"", "people.ann: has no password"),
            ("[tokens.ci]\nsha256 = \"hunter2\"\nrole = \"viewer\"", "tokens.ci: needs a sha256"),
            ("[tokens.ci]\npassword = \"hunter2\"\nrole = \"viewer\"", "tokens.ci: has a password"),
            ("[people.ann]\npasword = \"hunter2\"", "line 2: unknown field `pasword`"),
            ("[people.ann]\npassword = hunter2", "line 2: "),
            ("[people.ann]\nrole = \"root\"", "line 2: unknown variant `root`"),
        ] {
            let error = Accounts::parse(text).unwrap_err();
            assert!(error.starts_with(why), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let twice = format!("[people.ann]\npassword = \"{HASH}\"\nrole = \"viewer\"\n[tokens.ann]");
        assert_eq!(Accounts::parse(&twice).unwrap_err(), "tokens.ann: a person has the same name");
        let none = format!("[people.ann]\npassword = \"{HASH}\"");
        assert!(Accounts::parse(&none).unwrap_err().starts_with("people.ann: has no role"));
    }
}
