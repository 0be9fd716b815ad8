//! The baseline: the same work as raw, pipelined commands over plain sockets, without any of our code in between.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use secrecy::ExposeSecret;
use streamfleet::dev_server::DevServer;

/// How many entries one raw XREADGROUP takes.
const COUNT: usize = 100;

/// One plain connection.
pub(super) struct Raw {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

/// A reply, with bulk strings unchanged.
#[derive(Debug)]
pub(super) enum Reply {
    /// A status or a number.
    Short,
    Bulk(Vec<u8>),
    Nil,
    List(Vec<Self>),
}

impl Raw {
    pub(super) fn connect(server: &DevServer) -> Result<Self> {
        let output = TcpStream::connect(("127.0.0.1", server.port()))
            .context("failed to connect to the private server")?;
        output.set_nodelay(true)?;
        output.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut raw = Self { input: BufReader::with_capacity(1 << 18, output.try_clone()?), output };
        raw.call(&[b"AUTH", server.password().expose_secret().as_bytes()])?;
        Ok(raw)
    }

    /// Sends one command and returns its reply.
    pub(super) fn call(&mut self, command: &[&[u8]]) -> Result<Reply> {
        let mut out = Vec::new();
        encode(&mut out, command);
        self.output.write_all(&out)?;
        self.reply()
    }

    pub(super) fn reply(&mut self) -> Result<Reply> {
        let mut line = Vec::with_capacity(32);
        read_line(&mut self.input, &mut line)?;
        let text = || String::from_utf8_lossy(&line[1..]).into_owned();
        match line.first() {
            Some(b'+' | b':') => Ok(Reply::Short),
            Some(b'-') => bail!("redis returned an error: {}", text()),
            Some(b'$') => match text().parse::<i64>()? {
                -1 => Ok(Reply::Nil),
                size => {
                    let mut body = vec![0; usize::try_from(size)? + 2];
                    self.input.read_exact(&mut body)?;
                    body.truncate(body.len() - 2);
                    Ok(Reply::Bulk(body))
                }
            },
            Some(b'*') => match text().parse::<i64>()? {
                -1 => Ok(Reply::Nil),
                count => (0..count).map(|_| self.reply()).collect::<Result<_>>().map(Reply::List),
            },
            _ => bail!("a reply is not RESP2"),
        }
    }

    /// Returns an INFO section.
    pub(super) fn section(&mut self, section: &str) -> Result<String> {
        let Reply::Bulk(text) = self.call(&[b"INFO", section.as_bytes()])? else {
            bail!("the reply to INFO is not text")
        };
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns a number from an INFO section.
    pub(super) fn info(&mut self, section: &str, name: &str) -> Result<f64> {
        let text = self.section(section)?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value
            .with_context(|| format!("INFO {section} has no {name}"))?
            .trim()
            .parse()
            .context("a value of INFO is not a number")
    }

    /// Returns the CPU time that Redis has used, in seconds.
    pub(super) fn cpu(&mut self) -> Result<f64> {
        Ok(self.info("cpu", "used_cpu_sys")? + self.info("cpu", "used_cpu_user")?)
    }

    /// Appends an entry for each payload in one write.
    pub(super) fn append(&mut self, stream: &str, payloads: &[Vec<u8>]) -> Result<()> {
        let mut out = Vec::new();
        for payload in payloads {
            let job_type = super::TYPE.as_bytes();
            encode(&mut out, &[b"XADD", stream.as_bytes(), b"*", b"type", job_type, b"payload", payload]);
        }
        self.output.write_all(&out)?;
        payloads.iter().try_for_each(|_| self.reply().map(drop))
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.call(&[b"FLUSHALL"]).map(drop)
    }

    /// Appends `jobs` entries, pipelined without a pause: another thread writes while this one counts the replies.
    pub(super) fn enqueue(&mut self, stream: &str, jobs: usize, payload: &[u8]) -> Result<Duration> {
        let mut one = Vec::new();
        encode(
            &mut one,
            &[b"XADD", stream.as_bytes(), b"*", b"type", super::TYPE.as_bytes(), b"payload", payload],
        );
        let batch = one.repeat(500);
        let mut output = self.output.try_clone()?;
        let begun = Instant::now();
        let writer = std::thread::spawn(move || -> io::Result<()> {
            for _ in 0..jobs / 500 {
                output.write_all(&batch)?;
            }
            output.write_all(&one.repeat(jobs % 500))
        });
        let mut line = Vec::with_capacity(64);
        for _ in 0..jobs {
            // Each reply is a bulk string of one line: its length, then the id.
            read_line(&mut self.input, &mut line)?;
            read_line(&mut self.input, &mut line)?;
        }
        writer.join().ok().context("the writing thread panicked")??;
        Ok(begun.elapsed())
    }

    /// Reads, acknowledges and deletes entries in batches, until `jobs` are done or none are left.
    fn drain(mut self, stream: &str, consumer: &str, jobs: usize) -> Result<usize> {
        let (mut done, mut ids) = (0, Vec::new());
        let count = COUNT.to_string();
        let read: [&[u8]; 9] = [
            b"XREADGROUP",
            b"GROUP",
            b"fleet",
            consumer.as_bytes(),
            b"COUNT",
            count.as_bytes(),
            b"STREAMS",
            stream.as_bytes(),
            b">",
        ];
        while done < jobs {
            let mut out = Vec::with_capacity(8192);
            if !ids.is_empty() {
                let list = |command: &'static [u8], group: &'static [&'static [u8]]| {
                    let head = [command, stream.as_bytes()].into_iter().chain(group.iter().copied());
                    head.chain(ids.iter().map(Vec::as_slice)).collect::<Vec<_>>()
                };
                encode(&mut out, &list(b"XACK", &[b"fleet"]));
                encode(&mut out, &list(b"XDEL", &[]));
            }
            encode(&mut out, &read);
            self.output.write_all(&out)?;
            if !ids.is_empty() {
                self.reply()?;
                self.reply()?;
            }
            done += ids.len();
            ids = entry_ids(self.reply()?)?;
            if ids.is_empty() {
                break;
            }
        }
        Ok(done)
    }
}

/// Drains `jobs` entries over two connections on two threads, which is as fast as Redis gets.
pub(super) fn drain(server: &DevServer, stream: &str, jobs: usize) -> Result<Duration> {
    let connections = [Raw::connect(server)?, Raw::connect(server)?];
    let begun = Instant::now();
    let done: usize = std::thread::scope(|scope| -> Result<usize> {
        let threads: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(at, raw)| scope.spawn(move || raw.drain(stream, &format!("raw-{at}"), jobs / 2)))
            .collect();
        threads.into_iter().map(|thread| thread.join().ok().context("a draining thread panicked")?).sum()
    })?;
    if done < jobs - COUNT {
        bail!("only {done} of {jobs} entries were drained");
    }
    Ok(begun.elapsed().mul_f64(jobs as f64 / done as f64))
}

fn entry_ids(reply: Reply) -> Result<Vec<Vec<u8>>> {
    let streams = match reply {
        Reply::Nil => return Ok(Vec::new()),
        Reply::List(streams) => streams,
        other @ (Reply::Short | Reply::Bulk(_)) => {
            bail!("unexpected reply to XREADGROUP: {other:?}")
        }
    };
    let mut ids = Vec::with_capacity(COUNT);
    for stream in streams {
        let Reply::List(mut parts) = stream else {
            bail!("a reply to XREADGROUP has a stream without parts")
        };
        let Some(Reply::List(entries)) = parts.pop() else {
            bail!("a reply to XREADGROUP has a stream without entries")
        };
        for entry in entries {
            let Reply::List(parts) = entry else { bail!("a reply to XREADGROUP has an entry without parts") };
            if let Some(Reply::Bulk(id)) = parts.into_iter().next() {
                ids.push(id);
            }
        }
    }
    Ok(ids)
}

fn encode(out: &mut Vec<u8>, command: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for part in command {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

fn read_line(input: &mut impl io::BufRead, line: &mut Vec<u8>) -> Result<()> {
    line.clear();
    input.read_until(b'\n', line)?;
    if !line.ends_with(b"\r\n") {
        bail!("the connection was closed");
    }
    line.truncate(line.len() - 2);
    Ok(())
}
