//! Files with ends that the journal had no room for while the database could not be reached: one end as JSON per line, with the fields of its
//! entry. Once the database can be reached again, they are written to it, and the files go.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use streamfleet::job::{Envelope, Lane, QueueName};
use streamfleet_engine::EndedJob;
use streamfleet_engine::mutex::lock;

/// A file that has this many bytes gets no more ends.
const LARGE: u64 = 64 << 20;

/// The end of the name of a file that lines were moved to because they cannot be read.
const UNREAD: &str = "unread";

/// The files of one queue in a folder of this process.
#[derive(Debug)]
pub(super) struct Spill {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    queue: QueueName,
    /// The file that gets ends, and how many bytes it has.
    open: Mutex<Option<(File, u64)>>,
}

/// An end in a file.
#[derive(Serialize, Deserialize)]
struct Line {
    entry: String,
    /// The fields of the entry in MessagePack and base64: they may have any bytes.
    fields: String,
}

impl Spill {
    pub(super) fn new(folder: PathBuf, queue: QueueName) -> Self {
        Self { shared: Arc::new(Shared { folder, queue, open: Mutex::default() }) }
    }

    /// Writes these ends. When this returns without an error, they are on the disk.
    pub(super) async fn append(&self, ends: &[EndedJob]) -> io::Result<()> {
        let mut lines = Vec::new();
        for end in ends {
            serde_json::to_writer(&mut lines, &line(end))?;
            lines.push(b'\n');
        }
        let shared = Arc::clone(&self.shared);
        // A disk may take seconds.
        let written = tokio::task::spawn_blocking(move || shared.append(&lines)).await;
        written.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// How many files of the queue there are, and how many bytes they have.
    pub(super) fn usage(&self) -> io::Result<(u64, u64)> {
        let files = self.shared.files()?;
        // A file that was written to the database meanwhile is gone.
        let bytes = files.iter().filter_map(|path| fs::metadata(path).ok()).map(|file| file.len()).sum();
        Ok((files.len() as u64, bytes))
    }

    /// The files of the queue. None of them gets more ends.
    pub(super) fn take_files(&self) -> io::Result<Vec<PathBuf>> {
        *lock(&self.shared.open) = None;
        self.shared.files()
    }
}

impl Shared {
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut open = lock(&self.open);
        let (mut file, bytes) = match open.take() {
            Some((file, bytes)) if bytes < LARGE => (file, bytes),
            Some(_) | None => (self.create()?, 0),
        };
        // After an error, the next ends go to a new file: this one may end within a line.
        file.write_all(lines)?;
        file.sync_data()?;
        *open = Some((file, bytes + lines.len() as u64));
        Ok(())
    }

    fn create(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let name = format!("{}-{:016x}.ndjson", self.prefix(), rand::random::<u64>());
        let file =
            OpenOptions::new().append(true).create_new(true).mode(0o600).open(self.folder.join(name))?;
        // Its name must survive a crash of the machine, too.
        File::open(&self.folder)?.sync_all()?;
        Ok(file)
    }

    fn prefix(&self) -> String {
        format!("history-{}", self.queue)
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let listed = match fs::read_dir(&self.folder) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = listed.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
        // `mail` is also the beginning of `mail-2`.
        let start = format!("{}-", self.prefix());
        files.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let drawn = name.strip_prefix(&start).and_then(|rest| rest.strip_suffix(".ndjson"));
            drawn.is_some_and(|drawn| {
                drawn.len() == 16 && drawn.bytes().all(|digit| digit.is_ascii_hexdigit())
            })
        });
        files.sort();
        Ok(files)
    }
}

/// Reads a file in parts of at most this many ends. Lines that cannot be read are appended to a file beside it, and counted.
pub(super) fn parts(path: &Path, most: usize) -> io::Result<Parts> {
    Ok(Parts {
        lines: BufReader::new(File::open(path)?),
        unread: path.with_extension(UNREAD),
        most,
        broken: 0,
    })
}

/// The parts of a file, in order.
pub(super) struct Parts {
    lines: BufReader<File>,
    unread: PathBuf,
    most: usize,
    /// How many lines could not be read.
    pub(super) broken: u64,
}

impl Iterator for Parts {
    type Item = io::Result<Vec<EndedJob>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut ends, mut text) = (Vec::new(), Vec::new());
        while ends.len() < self.most {
            text.clear();
            match self.lines.read_until(b'\n', &mut text) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
            match read(&text) {
                Some(end) => ends.push(end),
                None => {
                    self.broken += 1;
                    if let Err(error) = keep(&self.unread, &text) {
                        return Some(Err(error));
                    }
                }
            }
        }
        (!ends.is_empty()).then_some(Ok(ends))
    }
}

fn keep(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_data()
}

fn line(end: &EndedJob) -> Line {
    let fields = end.whole().pack(Lane::default());
    Line { entry: end.entry.to_string(), fields: BASE64_STANDARD.encode(fields) }
}

fn read(text: &[u8]) -> Option<EndedJob> {
    let Line { entry, fields } = serde_json::from_slice(text).ok()?;
    let (fields, _) = Envelope::unpack(&BASE64_STANDARD.decode(fields).ok()?).ok()?;
    Some(EndedJob::read(entry.parse().ok()?, &fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use streamfleet::job::EntryId;

    fn end(nth: u64, error: &[u8]) -> EndedJob {
        let fields: [(&[u8], &[u8]); 3] = [(b"life", b"5-1"), (b"state", b"dead"), (b"error", error)];
        EndedJob::read(EntryId::new(nth, 0), &Envelope::new(fields.into_iter()))
    }

    fn spill(folder: &Path, queue: &str) -> Spill {
        Spill::new(folder.to_owned(), queue.parse().unwrap())
    }

    #[tokio::test]
    async fn ends_come_back_in_parts_and_files_of_other_queues_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (mail, other) = (spill(folder.path(), "mail"), spill(folder.path(), "mail-2"));
        let ends: Vec<_> = (1..=5).map(|nth| end(nth, b"\xff\n")).collect();
        mail.append(&ends[..3]).await.unwrap();
        mail.append(&ends[3..]).await.unwrap();
        other.append(&ends[..1]).await.unwrap();
        let files = mail.take_files().unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(mail.usage().unwrap(), (1, fs::metadata(&files[0]).unwrap().len()));
        let parts: Vec<_> = parts(&files[0], 2).unwrap().map(|part| part.unwrap()).collect();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(parts.concat(), ends);
    }

    #[tokio::test]
    async fn half_a_line_is_kept_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mail = spill(folder.path(), "mail");
        mail.append(&[end(1, b"no")]).await.unwrap();
        let file = mail.take_files().unwrap().remove(0);
        let mut text = fs::read(&file).unwrap();
        text.extend(b"{\"entry\":");
        fs::write(&file, &text).unwrap();
        let mut parts = parts(&file, 10).unwrap();
        assert_eq!(parts.next().unwrap().unwrap(), [end(1, b"no")]);
        assert!(parts.next().is_none());
        assert_eq!(parts.broken, 1);
        assert_eq!(fs::read(file.with_extension(UNREAD)).unwrap(), b"{\"entry\":");
    }

    #[test]
    fn a_folder_that_does_not_exist_has_no_files() {
        assert!(spill(Path::new("/nonexistent"), "mail").take_files().unwrap().is_empty());
    }
}
