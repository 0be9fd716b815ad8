//! The archive of a queue: files of this process to which dead letters are written before retention drops them, one letter
//! as JSON per line. A letter is in the archive at least once, and may be there twice. A file is never overwritten, and once
//! it is large or old, it gets no more letters.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::broker::DeadLetter;
use crate::broker::mutex::lock;
use crate::job::{QueueName, Timestamp};

/// The archive of one queue. Clones share its file.
#[derive(Clone)]
pub(crate) struct Archive {
    shared: Arc<Shared>,
}

struct Shared {
    folder: PathBuf,
    queue: QueueName,
    rotate_size: u64,
    rotate_after: Duration,
    open: Mutex<Option<Open>>,
}

/// The file that gets letters.
struct Open {
    file: File,
    path: PathBuf,
    /// How many bytes of it are surely on the disk. It ends with a whole line there.
    bytes: u64,
    since: Instant,
}

/// One letter, as the archive has it.
#[derive(Serialize)]
struct Line<'a> {
    queue: &'a str,
    letter: String,
    id: String,
    died_ms: u64,
    archived_ms: u64,
    fields: Vec<Field<'a>>,
}

/// One field of a letter, in the form of `streamfleet dead export`.
#[derive(Serialize)]
struct Field<'a> {
    name: String,
    /// `utf8`, or `hex` if the value is not text.
    form: &'static str,
    value: Cow<'a, str>,
}

impl Archive {
    pub(crate) fn new(
        queue: QueueName,
        folder: PathBuf,
        (rotate_size, rotate_after): (u64, Duration),
    ) -> Self {
        let open = Mutex::default();
        Self { shared: Arc::new(Shared { folder, queue, rotate_size, rotate_after, open }) }
    }

    /// Writes these letters. When this returns without an error, they are on the disk.
    pub(super) async fn append(&self, letters: &[DeadLetter], now: Timestamp) -> io::Result<()> {
        let mut lines = Vec::new();
        for letter in letters {
            serde_json::to_writer(&mut lines, &line(self.shared.queue.as_str(), letter, now))?;
            lines.push(b'\n');
        }
        let shared = Arc::clone(&self.shared);
        // A disk may take seconds.
        let written = tokio::task::spawn_blocking(move || shared.append(&lines, now)).await;
        written.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

impl Shared {
    fn append(&self, lines: &[u8], now: Timestamp) -> io::Result<()> {
        let mut open = lock(&self.open);
        if open.as_ref().is_some_and(|open| self.is_full(open) || !open.is_in_place()) {
            *open = None;
        }
        let mut current = match open.take() {
            Some(current) => current,
            None => self.create(now)?,
        };
        let written = current.file.write_all(lines).and_then(|()| current.file.sync_data());
        if written.is_ok() && !current.is_in_place() {
            let path = current.path.display();
            return Err(io::Error::other(format!("somebody has moved or deleted the archive file {path}")));
        }
        match written {
            Ok(()) => {
                current.bytes += lines.len() as u64;
                *open = Some(current);
            }
            // The next letters go to a new file.
            Err(_) => current.abandon(),
        }
        written
    }

    fn is_full(&self, open: &Open) -> bool {
        open.bytes >= self.rotate_size || open.since.elapsed() >= self.rotate_after
    }

    /// Begins a file under a name that no other process draws.
    fn create(&self, now: Timestamp) -> io::Result<Open> {
        let name = format!("{}-{:013}-{:016x}.ndjson", self.queue, now.as_ms(), rand::random::<u64>());
        let path = self.folder.join(name);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        let open = Open { file, path, bytes: 0, since: Instant::now() };
        // Its name must survive a crash of the machine, too.
        match File::open(&self.folder).and_then(|folder| folder.sync_all()) {
            Ok(()) => Ok(open),
            Err(error) => {
                open.abandon();
                Err(error)
            }
        }
    }
}

impl Open {
    /// True if its path still leads to it. Somebody may have moved, compressed or deleted the file, and then nobody would find
    /// what is written to it.
    fn is_in_place(&self) -> bool {
        let identity = |told: io::Result<fs::Metadata>| told.ok().map(|told| (told.dev(), told.ino()));
        let own = identity(self.file.metadata());
        own.is_some() && own == identity(fs::metadata(&self.path))
    }

    /// Takes back what may be half written, as far as the disk allows. If it does not, the letter is there twice, or half a
    /// line is the last one.
    fn abandon(self) {
        let cut = if self.bytes == 0 { fs::remove_file(&self.path) } else { self.file.set_len(self.bytes) };
        if let Err(error) = cut {
            tracing::warn!(%error, "an archive file may end in the middle of a line");
        }
    }
}

fn line<'a>(queue: &'a str, letter: &'a DeadLetter, now: Timestamp) -> Line<'a> {
    // Once the large fields are back in place, nothing else has them.
    let is_whole = letter.fields.is_whole();
    let kept = letter.fields.fields().filter(|(name, _)| !is_whole || *name != b"offloaded");
    Line {
        queue,
        letter: letter.entry.to_string(),
        id: letter.job().to_string(),
        died_ms: letter.died().as_ms(),
        archived_ms: now.as_ms(),
        fields: kept.map(|(name, value)| field(name, value)).collect(),
    }
}

fn field<'a>(name: &[u8], value: &'a [u8]) -> Field<'a> {
    let name = String::from_utf8_lossy(name).into_owned();
    match std::str::from_utf8(value) {
        Ok(text) => Field { name, form: "utf8", value: text.into() },
        Err(_) => {
            // Without an allocation for each byte: there may be millions.
            let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
            let hex: String = value.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
            Field { name, form: "hex", value: hex.into() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;
    use crate::job::{EntryId, Envelope};

    fn letter(nth: u64, payload: &[u8]) -> DeadLetter {
        let fields: [(&[u8], &[u8]); 3] = [(b"type", b"mail"), (b"id", b"a"), (b"payload", payload)];
        DeadLetter::new(EntryId::new(nth, 0), Envelope::new(fields.into_iter()))
    }

    fn archive(folder: &Path, rotate_size: u64) -> Archive {
        let queue = "mail".parse().unwrap();
        Archive::new(queue, folder.to_owned(), (rotate_size, Duration::from_secs(3600)))
    }

    fn lines(folder: &Path) -> Vec<serde_json::Value> {
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    const NOW: u64 = 1_700_000_000_000;

    async fn append(archive: &Archive, letters: &[DeadLetter]) -> io::Result<()> {
        archive.append(letters, Timestamp::from_ms(NOW).unwrap()).await
    }

    #[tokio::test]
    async fn letters_are_lines_with_all_their_fields() {
        let folder = tempfile::tempdir().unwrap();
        let archive = archive(folder.path(), 1 << 20);
        append(&archive, &[letter(1, b"{\n}"), letter(2, b"\xff")]).await.unwrap();
        append(&archive, &[letter(3, b"3")]).await.unwrap();
        let found = lines(folder.path());
        assert_eq!(found.len(), 3);
        assert_eq!((&found[0]["queue"], &found[0]["letter"]), (&"mail".into(), &"1-0".into()));
        assert_eq!((&found[0]["id"], &found[0]["archived_ms"]), (&"a".into(), &NOW.into()));
        let payload = |nth: usize| (&found[nth]["fields"][2]["form"], &found[nth]["fields"][2]["value"]);
        assert_eq!(payload(0), (&"utf8".into(), &"{\n}".into()));
        assert_eq!(payload(1), (&"hex".into(), &"ff".into()));
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_large_file_gets_no_more_letters_and_processes_share_none() {
        let folder = tempfile::tempdir().unwrap();
        let archives = [archive(folder.path(), 300), archive(folder.path(), 300)];
        for nth in 0..8 {
            append(&archives[nth % 2], &[letter(nth as u64 + 1, b"1")]).await.unwrap();
        }
        let files = fs::read_dir(folder.path()).unwrap().count();
        assert!((4..=8).contains(&files), "{files}");
        assert_eq!(lines(folder.path()).len(), 8);
    }

    #[tokio::test]
    async fn a_file_that_was_moved_gets_no_more_letters() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let archive = archive(folder.path(), 1 << 20);
        append(&archive, &[letter(1, b"1")]).await.unwrap();
        let moved = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        fs::rename(&moved, elsewhere.path().join("moved.ndjson")).unwrap();
        append(&archive, &[letter(2, b"2")]).await.unwrap();
        for (folder, letter) in [(&elsewhere, "1-0"), (&folder, "2-0")] {
            let found = lines(folder.path());
            assert_eq!((found.len(), &found[0]["letter"]), (1, &letter.into()));
        }
    }

    #[tokio::test]
    async fn an_archive_that_cannot_be_written_refuses_and_recovers() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("archive");
        let archive = archive(&inner, 1 << 20);
        let letters = [letter(1, b"1")];
        assert_eq!(append(&archive, &letters).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&inner).unwrap();
        append(&archive, &letters).await.unwrap();
        assert_eq!(lines(&inner).len(), 1);
    }
}
