//! Encryption: AES-256-GCM with a random nonce in front and the tag behind, and keys by their names.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::CodecError;
use crate::job::is_key_name;

pub(super) const NONCE_BYTES: usize = 12;
pub(super) const TAG_BYTES: usize = 16;

/// The most bytes of a file of keys that are read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Keys by their names. The first one encrypts; all decrypt, so that keys can be rotated. Clones share them.
///
/// A file or a variable has `name:key` items that white space or commas separate, each key in base64: `openssl rand -base64 32` makes
/// one. In a file, a line that begins with `#` is a comment.
#[derive(Clone)]
pub struct Keys(Arc<[(String, LessSafeKey)]>);

impl Keys {
    /// Takes keys by their names.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if there is none, a name is not 1 to 64 letters, digits, `.`, `_` and `-`, or occurs twice.
    pub fn new<N: Into<String>>(keys: impl IntoIterator<Item = (N, [u8; 32])>) -> Result<Self, CodecError> {
        let keys = keys.into_iter().map(|(name, key)| (name.into(), key.to_vec()));
        Self::checked(keys.collect(), "keys")
    }

    /// Reads the keys from a file.
    ///
    /// # Errors
    ///
    /// [`CodecError`], which names the file and the item that is wrong.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, CodecError> {
        use std::io::Read as _;

        let (path, mut text) = (path.as_ref(), String::new());
        let place = path.display().to_string();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
        read.map_err(|error| CodecError(format!("the file of keys {place} cannot be read: {error}")))?;
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        Self::parse(&lines.collect::<Vec<_>>().join("\n"), &place)
    }

    /// Reads the keys from a variable of the environment.
    ///
    /// # Errors
    ///
    /// [`CodecError`], which names the variable and the item that is wrong.
    #[expect(
        clippy::disallowed_methods,
        reason = "the application names the variable, which is none of the configuration"
    )]
    pub fn from_env(name: &str) -> Result<Self, CodecError> {
        let unset = format!("the variable {name} is not set: it must have the keys, as name:base64");
        let text = std::env::var(name).map_err(|_| CodecError(unset))?;
        Self::parse(&text, &format!("the variable {name}"))
    }

    /// Reads `name:base64` items. No error shows a key.
    fn parse(text: &str, place: &str) -> Result<Self, CodecError> {
        let items = text.split(|c: char| c.is_whitespace() || c == ',').filter(|item| !item.is_empty());
        let mut keys = Vec::new();
        for (at, item) in items.enumerate() {
            let number = at + 1;
            let wrong = |what: &str| CodecError(format!("{place}: {what}"));
            let (name, data) = item
                .split_once(':')
                .ok_or_else(|| wrong(&format!("item {number} must be name:key, with the key in base64")))?;
            let key = BASE64_STANDARD.decode(data).map_err(|_| {
                wrong(&format!("the key of item {number} is not base64: openssl rand -base64 32"))
            })?;
            keys.push((name.to_owned(), key));
        }
        Self::checked(keys, place)
    }

    fn checked(keys: Vec<(String, Vec<u8>)>, place: &str) -> Result<Self, CodecError> {
        let wrong = |what: String| CodecError(format!("{place}: {what}"));
        let mut checked: Vec<(String, LessSafeKey)> = Vec::new();
        for (name, key) in keys {
            if !is_key_name(&name) {
                let rule = "has 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit";
                return Err(wrong(format!("the name of a key {rule}")));
            }
            if checked.iter().any(|(known, _)| *known == name) {
                return Err(wrong(format!("there are two keys with the name {name}")));
            }
            let unbound = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| {
                wrong(format!(
                    "the key {name} must have 32 bytes, not {}: openssl rand -base64 32",
                    key.len()
                ))
            })?;
            checked.push((name, LessSafeKey::new(unbound)));
        }
        if checked.is_empty() {
            return Err(wrong("there is no key: it must be name:key, with the key in base64".to_owned()));
        }
        Ok(Self(checked.into()))
    }

    /// The name of the key that encrypts.
    pub fn first(&self) -> &str {
        self.0.first().map_or("", |(name, _)| name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&LessSafeKey> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, key)| key)
    }

    /// Encrypts a text with the first key, for what it is bound to.
    pub(super) fn seal(&self, bound: &str, plain: &[u8]) -> Result<Vec<u8>, CodecError> {
        let failed = |_| CodecError("the payload cannot be encrypted".to_owned());
        let mut nonce = [0; NONCE_BYTES];
        SystemRandom::new().fill(&mut nonce).map_err(failed)?;
        let mut sealed = Vec::with_capacity(NONCE_BYTES + plain.len() + TAG_BYTES);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let Some((_, key)) = self.0.first() else { return Err(failed(ring::error::Unspecified)) };
        let (nonce, text) = (Nonce::assume_unique_for_key(nonce), &mut sealed[NONCE_BYTES..]);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(bound.as_bytes()), text).map_err(failed)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }
}

/// Decrypts a text; `None` if it, the key or what it is bound to is another one.
pub(super) fn open(key: &LessSafeKey, bound: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, text) = sealed.split_at_checked(NONCE_BYTES)?;
    let mut text = text.to_vec();
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let size = key.open_in_place(nonce, Aad::from(bound.as_bytes()), &mut text).ok()?.len();
    text.truncate(size);
    Some(text)
}

impl fmt::Debug for Keys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base64(byte: u8) -> String {
        BASE64_STANDARD.encode([byte; 32])
    }

    #[test]
    fn keys_are_read_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        std::fs::write(&file, format!("# new\n2026-11:{}\n  # old\n\n2026-10:{}\n", base64(1), base64(2)))
            .unwrap();
        let keys = Keys::from_file(&file).unwrap();
        assert_eq!(format!("{keys:?}"), r#"["2026-11", "2026-10"]"#);
        assert_eq!(Keys::parse(&format!("b:{},a:{}", base64(1), base64(2)), "x").unwrap().first(), "b");
        assert!(
            Keys::from_file(folder.path().join("no")).unwrap_err().to_string().contains("cannot be read")
        );
    }

    #[test]
    fn no_error_shows_a_key() {
        let secret = BASE64_STANDARD.encode("canary-canary-canary-canary-cana");
        for (text, why) in [
            (secret.clone(), "item 1 must be name:key"),
            (format!("a:{secret}!"), "item 1 is not base64"),
            (format!("a:{}", &secret[..40]), "must have 32 bytes, not 30"),
            (format!("a b:{secret}"), "item 1 must be name:key"),
            (format!("-a:{secret}"), "the name of a key"),
            (format!("a:{secret} a:{secret}"), "two keys"),
            (String::new(), "there is no key"),
        ] {
            let error = Keys::parse(&text, "the variable KEYS").unwrap_err().to_string();
            assert!(error.contains(why) && error.starts_with("the variable KEYS: "), "{error}");
            assert!(!error.contains(&secret[..10]), "{error}");
        }
        assert!(Keys::from_env("STREAMFLEET_NO_KEYS").unwrap_err().to_string().contains("is not set"));
    }
}
