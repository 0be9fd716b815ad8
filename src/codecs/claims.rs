//! Stores of payloads that are kept apart from Redis, by the SHA-256 of their bytes.

use std::fs::{self, File, FileTimes};
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use ring::digest::{SHA256, digest};

use crate::job::is_sha256;

/// What a store reports.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// Keeps payloads apart from Redis: [`Directory`], or a store of your own, such as a bucket.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
///
/// use bytes::Bytes;
/// use streamfleet::codecs::{ClaimStore, StoreError};
///
/// #[derive(Default)]
/// struct Memory(Mutex<HashMap<String, Bytes>>);
///
/// impl ClaimStore for Memory {
///     async fn put(&self, sha256: &str, bytes: Bytes) -> Result<(), StoreError> {
///         self.0.lock().map_err(|_| "a thread panicked")?.insert(sha256.to_owned(), bytes);
///         Ok(())
///     }
///
///     async fn get(&self, sha256: &str, _most: usize) -> Result<Option<Bytes>, StoreError> {
///         Ok(self.0.lock().map_err(|_| "a thread panicked")?.get(sha256).cloned())
///     }
/// }
/// ```
pub trait ClaimStore: Send + Sync + 'static {
    /// Stores bytes under their hash, which has 64 hexadecimal digits. Bytes that are there already get the time of now, so that
    /// deletion by age is safe.
    fn put(&self, sha256: &str, bytes: Bytes) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Reads the bytes of a hash; `None` if there are none. Of more than `most` bytes, it may return any that are too many.
    fn get(
        &self,
        sha256: &str,
        most: usize,
    ) -> impl Future<Output = Result<Option<Bytes>, StoreError>> + Send;
}

/// A [`ClaimStore`] with its type erased.
pub(super) trait ErasedStore: Send + Sync {
    fn put<'a>(&'a self, sha256: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<(), StoreError>>;
    fn get<'a>(&'a self, sha256: &'a str, most: usize) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>>;
}

impl<S: ClaimStore> ErasedStore for S {
    fn put<'a>(&'a self, sha256: &'a str, bytes: Bytes) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(ClaimStore::put(self, sha256, bytes))
    }

    fn get<'a>(&'a self, sha256: &'a str, most: usize) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(ClaimStore::get(self, sha256, most))
    }
}

/// A folder, which all producers and handlers share: each file is in a folder of a folder, named by the first digits of its hash.
#[derive(Debug, Clone)]
pub struct Directory(PathBuf);

impl Directory {
    /// Keeps payloads in this folder, which is made if it does not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// A hash chooses a place, so nothing else may become one.
    fn file(&self, sha256: &str) -> io::Result<PathBuf> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "a hash must have 64 hexadecimal digits");
        is_sha256(sha256)
            .then(|| self.0.join(&sha256[..2]).join(&sha256[2..4]).join(sha256))
            .ok_or_else(wrong)
    }
}

impl ClaimStore for Directory {
    async fn put(&self, sha256: &str, bytes: Bytes) -> Result<(), StoreError> {
        let file = self.file(sha256)?;
        Ok(tokio::task::spawn_blocking(move || written(&file, &bytes)).await??)
    }

    async fn get(&self, sha256: &str, most: usize) -> Result<Option<Bytes>, StoreError> {
        let file = self.file(sha256)?;
        Ok(tokio::task::spawn_blocking(move || read(&file, most)).await??)
    }
}

/// Writes a file whole, or renews the time of one that is whole.
fn written(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_touched(file, bytes.len())? {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".{:016x}.tmp", rand::random::<u64>()));
    let write = || {
        let mut out = File::create_new(&temporary)?;
        out.write_all(bytes)?;
        out.sync_all()?;
        fs::rename(&temporary, file)
    };
    if let Err(error) = write() {
        fs::remove_file(&temporary).ok();
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

/// A file of another user is replaced.
#[expect(clippy::disallowed_methods, reason = "the age of a file is by the clock of its machine")]
fn is_touched(file: &Path, size: usize) -> io::Result<bool> {
    let is_other = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
    let held = match File::options().append(true).open(file) {
        Ok(held) => held,
        Err(error) if is_other(error.kind()) => return Ok(false),
        Err(error) => return Err(error),
    };
    if usize::try_from(held.metadata()?.len()).ok() != Some(size) {
        return Ok(false);
    }
    held.set_times(FileTimes::new().set_modified(SystemTime::now()))?;
    Ok(true)
}

fn read(file: &Path, most: usize) -> io::Result<Option<Bytes>> {
    let held = match File::open(file) {
        Ok(held) => held,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    held.take(u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes.into()))
}

/// The SHA-256 of bytes, in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_directory_keeps_bytes_by_their_hash_and_renews_their_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Directory::new(folder.path().join("payloads"));
        let (bytes, hash) = (Bytes::from_static(b"bytes"), sha256(b"bytes"));
        assert_eq!(ClaimStore::get(&store, &hash, 100).await.unwrap(), None);
        ClaimStore::put(&store, &hash, bytes.clone()).await.unwrap();
        let file = folder.path().join("payloads").join(&hash[..2]).join(&hash[2..4]).join(&hash);
        assert_eq!(fs::read(&file).unwrap(), bytes);
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        File::options().append(true).open(&file).unwrap().set_modified(old).unwrap();
        ClaimStore::put(&store, &hash, bytes.clone()).await.unwrap();
        assert!(fs::metadata(&file).unwrap().modified().unwrap() > old + Duration::from_secs(60));
        fs::write(&file, b"cut").unwrap();
        ClaimStore::put(&store, &hash, bytes.clone()).await.unwrap();
        assert_eq!(ClaimStore::get(&store, &hash, 100).await.unwrap(), Some(bytes));
        assert_eq!(ClaimStore::get(&store, &hash, 3).await.unwrap().unwrap().len(), 4);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing temporary is left");
    }

    #[tokio::test]
    async fn nothing_but_a_hash_becomes_a_place() {
        let store = Directory::new("/nowhere");
        for wrong in
            ["", &"../".repeat(30), &"A".repeat(64), &"0".repeat(63), &format!("{}\n", "0".repeat(64))]
        {
            let read = ClaimStore::get(&store, wrong, 1).await.unwrap_err();
            let written = ClaimStore::put(&store, wrong, Bytes::new()).await.unwrap_err();
            assert!([read, written].iter().all(|error| error.to_string().contains("64 hexadecimal digits")));
        }
    }
}
