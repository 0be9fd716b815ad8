//! One program of a pool: its start, the greeting, its lines, and its end.

use std::future::pending;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::Shared;
use super::message::{self, Message, PROTOCOL, Ready, excerpt};
use super::words::{LastWords, Words};
use super::written;
use crate::handlers::excerpt::error_text;
use crate::handlers::process::{Leader, on_the_thread};

/// How much is read at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// After a line that is longer than this, its memory is given back.
const MOST_KEPT: usize = 1024 * 1024;

/// How long a program that is of no use may take to end by itself: how it does that says more than that it was killed.
const OWN_END: Duration = Duration::from_secs(1);

/// The fault of a program that ended its output.
const ENDED: &str = "the program ended before it was ready";

/// How the fault of a program that wrote something else begins.
const WROTE: &str = "the program wrote";

/// How the fault of a program that was too slow begins.
const LATE: &str = "the program was not ready within";

/// What to know about a program that was too slow.
const MORE_TIME: &str = "hint: start_timeout of the pool says how long it may take";

/// What to know about a program that ended without an error.
const NOT_RUN: &str = "hint: it ended without an error; it must call run() of its package, or read its standard input until that ends";

/// How long to wait for the rest of standard error after the program has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A running program.
pub(super) struct Program {
    pub(super) leader: Leader,
    /// `None` once it was told that nothing more will come.
    pub(super) stdin: Option<ChildStdin>,
    pub(super) lines: Lines<ChildStdout>,
    pub(super) words: Arc<Words>,
    /// Reads its words.
    reading: JoinSet<()>,
}

/// Why a program is not of use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// It may be different the next time.
    #[error("{0}")]
    Failed(String),
    /// The program and the configuration contradict each other.
    #[error("{0}")]
    Refused(String),
}

impl Program {
    /// Starts the program and exchanges greetings. If this is dropped, the program is killed.
    pub(super) async fn start(pool: &Shared) -> Result<(Self, Ready), Fault> {
        let config = &pool.config;
        let mut program = Self::spawn(pool, None).await?;
        let by = Instant::now() + config.start_timeout;
        let fault = match timeout_at(by, program.greet(pool)).await {
            Ok(Ok(ready)) => return Ok((program, ready)),
            Ok(Err(fault)) => {
                program.stdin = None;
                timeout(OWN_END, program.leader.exited()).await.ok();
                fault
            }
            Err(_late) => {
                let limit = crate::job::format_duration(config.start_timeout);
                Fault::Failed(format!("{LATE} {limit}"))
            }
        };
        Err(program.given_up(fault, config.template().hint()).await)
    }

    /// Has the program say what the types of its handlers need, and end. Returns the last line that it writes.
    pub(super) async fn describe(pool: &Shared) -> Result<Bytes, Fault> {
        let config = &pool.config;
        let mut program = Self::spawn(pool, Some(("STREAMFLEET_DESCRIBE", "1"))).await?;
        program.stdin = None;
        let by = Instant::now() + config.start_timeout;
        let fault = match timeout_at(by, program.last_line()).await {
            Ok(Ok(last)) => {
                timeout_at(by, program.leader.exited()).await.ok();
                let (status, words) = program.end().await;
                let how = match status {
                    Ok(status) if status.success() => return Ok(last),
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                };
                let how = format!("the program cannot say what its types need ({how})");
                return Err(Fault::Failed(error_text(&how, &words.all)));
            }
            Ok(Err(why)) => unexpected(&why),
            Err(_late) => {
                let limit = crate::job::format_duration(config.start_timeout);
                Fault::Failed(format!("the program did not end within {limit}"))
            }
        };
        Err(program.given_up(fault, config.template().hint()).await)
    }

    /// Reads its output to the end.
    async fn last_line(&mut self) -> Result<Bytes, String> {
        let mut last = Bytes::new();
        while let Some(line) = self.lines.next().await? {
            if !line.is_empty() {
                last = line;
            }
        }
        Ok(last)
    }

    /// Starts the program, with one more variable.
    async fn spawn(pool: &Shared, variable: Option<(&str, &str)>) -> Result<Self, Fault> {
        let (config, name) = (&pool.config, &pool.name);
        let mut invocation = config.template().invocation(&pool.setting);
        invocation.set("STREAMFLEET_POOL", name.as_str());
        invocation.set("STREAMFLEET_PROTOCOL", PROTOCOL.to_string());
        if let Some((name, value)) = variable {
            invocation.set(name, value);
        }
        let started = on_the_thread(invocation.user(), move || Leader::spawn(&invocation, None)).await;
        let mut leader = started.map_err(|error| Fault::Failed(config.template().not_started(&error)))?;
        let outputs = leader.take_outputs();
        let (Some(stdin), Some((stdout, stderr))) = (leader.take_stdin(), outputs) else {
            return Err(Fault::Failed("the program has no pipes".to_owned()));
        };
        let words = Words::new(stderr, name.clone());
        let words =
            words.map_err(|error| Fault::Failed(format!("its standard error cannot be read: {error}")))?;
        let (words, mut reading) = (Arc::new(words), JoinSet::new());
        let read = Arc::clone(&words);
        reading.spawn(async move { read.read_all().await });
        let longest = usize::try_from(config.max_line).unwrap_or(usize::MAX);
        let lines = Lines { pipe: stdout, buffer: BytesMut::new(), searched: 0, longest };
        Ok(Self { leader, stdin: Some(stdin), lines, words, reading })
    }

    async fn greet(&mut self, pool: &Shared) -> Result<Ready, Fault> {
        let hello = written::hello(pool.name.as_str(), &pool.config);
        if let Some(stdin) = &mut self.stdin {
            // If it does not read, what it says or how it ends shows why.
            stdin.write_all(&hello).await.ok();
        }
        let line = match self.lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return Err(Fault::Failed(ENDED.to_owned())),
            Err(why) => return Err(unexpected(&why)),
        };
        match message::parse(&line) {
            Ok(Message::Ready(ready)) => check(pool, ready),
            Ok(_) => Err(not_ready(&excerpt(&line))),
            Err(why) if message::is_object(&line) => Err(not_ready(&why)),
            Err(_) => {
                // PHP begins what it shows of its own errors with an empty line.
                let next = if line.is_empty() { self.lines.next_read().and_then(Result::ok) } else { None };
                Err(unexpected(&format!("{:?}", excerpt(&next.unwrap_or(line)))))
            }
        }
    }

    /// Kills the program if it has not ended by itself, and adds to the fault how it ended, what it wrote on standard error, and
    /// a hint.
    async fn given_up(self, fault: Fault, pass_env: Option<String>) -> Fault {
        let has_ended = self.leader.has_exited();
        let (status, words) = self.end().await;
        let text = match fault {
            Fault::Failed(text) => text,
            Fault::Refused(text) => return Fault::Refused(text),
        };
        let status = status.ok().filter(|_| has_ended);
        let how = status.map_or_else(|| text.clone(), |status| format!("{text} ({status})"));
        let hint = match (text.as_str(), status) {
            (ENDED, Some(status)) if status.success() => Some(NOT_RUN.to_owned()),
            (ENDED, None) => Some("hint: it closed its standard output, and did not end".to_owned()),
            (text, _) if text.starts_with(LATE) => Some(MORE_TIME.to_owned()),
            (text, _) if text.starts_with(WROTE) || is_unreadable(&words.all) => None,
            _ => pass_env,
        };
        let text = error_text(&how, &words.all);
        Fault::Failed(hint.map_or_else(|| text.clone(), |hint| format!("{text}\n{hint}")))
    }

    /// Kills what is left of the program. Returns how it ended, and the end of its standard error.
    pub(super) async fn end(self) -> (io::Result<ExitStatus>, LastWords) {
        let Self { mut leader, stdin, lines, words, mut reading } = self;
        drop((stdin, lines));
        let status = leader.reap().await;
        // A process that has left the group may hold the pipe.
        let read = async { while reading.join_next().await.is_some() {} };
        timeout(LAST_WORDS, read).await.ok();
        (status, words.last())
    }

    /// Returns how many bytes of RAM it uses; `None` if the system does not tell.
    pub(super) fn memory(&self) -> Option<u64> {
        let path = format!("/proc/{}/statm", self.leader.pid().as_raw_nonzero());
        let pages: u64 = std::fs::read_to_string(path).ok()?.split(' ').nth(1)?.parse().ok()?;
        Some(pages.saturating_mul(rustix::param::page_size() as u64))
    }
}

fn not_ready(why: &str) -> Fault {
    Fault::Failed(format!("{WROTE} a first line that is not ready: {why}"))
}

fn unexpected(what: &str) -> Fault {
    let is_remark =
        ["\"Deprecated: ", "\"Notice: ", "\"Warning: "].iter().any(|kind| what.starts_with(*kind));
    let advice = match () {
        () if is_unreadable(what) => "",
        () if is_remark => {
            ": print nothing on standard output before that; PHP writes its own warnings elsewhere with -d display_errors=stderr"
        }
        () => ": print nothing on standard output before that, in PHP not before Worker::create()",
    };
    Fault::Failed(format!("{WROTE} {what} instead of ready{advice}"))
}

/// Returns true if this says that the program's code is wrong, so that no variable can be missing.
fn is_unreadable(words: &str) -> bool {
    ["Parse error", "ParseError", "SyntaxError"].iter().any(|mark| words.contains(*mark))
}

/// Checks whether a program and its pool fit together.
fn check(pool: &Shared, ready: Ready) -> Result<Ready, Fault> {
    if ready.protocol != PROTOCOL {
        return Err(Fault::Refused(format!(
            "the program speaks version {} of the protocol, and this worker version {PROTOCOL}",
            ready.protocol
        )));
    }
    let Some(served) = &ready.types else { return Ok(ready) };
    let lacks = |name: &&String| !served.contains(name);
    let wanted = pool.types();
    let missing: Vec<&str> = wanted.iter().filter(lacks).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(ready);
    }
    let why = format!("the program does not serve {}, only {}", missing.join(", "), served.join(", "));
    Err(Fault::Refused(excerpt(why.as_bytes())))
}

/// The lines that a program writes.
pub(super) struct Lines<R> {
    pipe: R,
    buffer: BytesMut,
    /// How much of the buffer is known to have no line end.
    searched: usize,
    /// The most bytes of a line.
    longest: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Returns the next line without its end; `None` at the end of the output. If this is dropped, nothing is lost.
    ///
    /// # Errors
    ///
    /// What there is instead of a line.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            if let Some(line) = self.next_read() {
                return line.map(Some);
            }
            if self.searched > self.longest {
                return Err(self.too_long());
            }
            self.buffer.reserve(CHUNK_BYTES);
            match self.pipe.read_buf(&mut self.buffer).await {
                Ok(0) if self.buffer.is_empty() => return Ok(None),
                Ok(0) => {
                    let rest = excerpt(&self.buffer.split());
                    self.searched = 0;
                    return Err(format!("{rest:?} without a line end"));
                }
                Ok(_) => {}
                Err(error) => return Err(format!("a line that cannot be read ({error})")),
            }
        }
    }

    /// Returns the next line as [`Lines::next`] does, if all of it has been read already.
    pub(super) fn next_read(&mut self) -> Option<Result<Bytes, String>> {
        let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let mut line = self.buffer.split_to(self.searched + at + 1);
        line.truncate(line.len() - 1);
        self.searched = 0;
        if line.len() > MOST_KEPT && self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        Some(if line.len() > self.longest { Err(self.too_long()) } else { Ok(line.freeze()) })
    }

    /// Returns true if nothing has been read beyond the lines that were returned.
    pub(super) fn is_drained(&self) -> bool {
        self.buffer.is_empty()
    }

    fn too_long(&self) -> String {
        format!("a line of more than {} bytes", self.longest)
    }
}

/// Writes a part of `bytes`, and returns how much. If this is dropped, nothing was written. Waits forever if there is nobody to
/// write to.
pub(super) async fn write_some(stdin: &mut Option<ChildStdin>, bytes: &[u8]) -> io::Result<usize> {
    match stdin {
        Some(stdin) if !bytes.is_empty() => match stdin.write(bytes).await {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            written => written,
        },
        Some(_) | None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], longest: usize) -> Lines<&[u8]> {
        Lines { pipe: text, buffer: BytesMut::new(), searched: 0, longest }
    }

    #[tokio::test]
    async fn lines_are_split_at_their_ends_only() {
        let mut lines = lines(b"one\n\ntwo\r\nrest", 100);
        assert_eq!(lines.next_read(), None);
        assert_eq!(lines.next().await, Ok(Some(Bytes::from("one"))));
        assert_eq!([lines.next_read(), lines.next_read()], ["", "two\r"].map(|line| Some(Ok(line.into()))));
        assert_eq!(lines.next_read(), None);
        assert!(lines.next().await.unwrap_err().contains("rest"));
        assert_eq!(lines.next().await, Ok(None));
    }

    #[tokio::test]
    async fn the_memory_of_a_long_line_is_given_back() {
        let text = ["x".repeat(5_000_000).as_bytes(), b"\n"].concat();
        let mut lines = lines(&text, 10_000_000);
        assert_eq!(lines.next().await.unwrap().unwrap().len(), 5_000_000);
        assert_eq!(lines.next().await, Ok(None));
        assert!(lines.buffer.capacity() <= 2 * CHUNK_BYTES, "{}", lines.buffer.capacity());
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_bounded() {
        let endless = vec![b'x'; 1_000_000];
        let mut lines = lines(&endless, 1000);
        assert!(lines.next().await.unwrap_err().contains("more than 1000 bytes"));
        assert!(lines.buffer.len() <= 1000 + 2 * CHUNK_BYTES, "{}", lines.buffer.len());
    }
}
