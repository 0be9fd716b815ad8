//! One connection through the proxy: a thread that pumps requests and one that pumps replies.

use std::collections::{HashSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use socket2::SockRef;

use super::proxy::{Active, Direction, Mode, Scope, Shared};
use super::resp::{Frames, arguments, contains, is_push};
use super::wait::pause_for;

const PIECE: usize = 64 * 1024;
const HEAD: usize = 4 * 1024;
const WORD: usize = 128;
const WORDS: usize = 10_000;
const WRITTEN: Duration = Duration::from_secs(5);

pub(super) struct Connection {
    client: TcpStream,
    server: TcpStream,
    shared: Arc<Shared>,
    /// How many connections were accepted before it.
    nth: usize,
    /// The beginnings of the requests that were sent to Redis and whose replies have not passed yet.
    outstanding: Mutex<VecDeque<Vec<u8>>>,
    answered: Condvar,
    words: Mutex<HashSet<Vec<u8>>>,
    lossy: AtomicBool,
    reset: AtomicBool,
}

impl Connection {
    pub(super) fn new(client: TcpStream, server: TcpStream, shared: Arc<Shared>, nth: usize) -> Self {
        for socket in [&client, &server] {
            socket.set_nodelay(true).unwrap();
            socket.set_write_timeout(Some(WRITTEN)).unwrap();
        }
        Self {
            client,
            server,
            shared,
            nth,
            outstanding: Mutex::default(),
            answered: Condvar::new(),
            words: Mutex::default(),
            lossy: AtomicBool::new(false),
            reset: AtomicBool::new(false),
        }
    }

    /// Whether bytes of this connection were swallowed.
    pub(super) fn is_lossy(&self) -> bool {
        self.lossy.load(Ordering::SeqCst)
    }

    /// Ends the connection with RST to both sides, sent when both threads have dropped the sockets.
    pub(super) fn reset(&self) {
        self.reset.store(true, Ordering::SeqCst);
        for socket in [&self.client, &self.server] {
            // An error means that the peer has closed it already.
            SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap_or_default();
            socket.shutdown(Shutdown::Read).unwrap_or_default();
        }
        self.wake();
    }

    pub(super) fn pump_requests(&self) {
        let mut frames = Frames::default();
        let mut piece = vec![0; PIECE];
        let result = loop {
            match read(&self.client, &mut piece) {
                Ok(0) => break Ok(()),
                Ok(len) => frames.feed(&piece[..len]),
                Err(error) => break Err(error),
            }
            if let Err(error) = self.forward_requests(&mut frames) {
                break Err(error);
            }
        };
        if self.is_over(Direction::Requests) {
            return;
        }
        match result {
            // Redis may still be replying: the thread that pumps replies ends when Redis closes as well.
            Ok(()) => self.server.shutdown(Shutdown::Write).unwrap_or_default(),
            Err(_error) => self.close(),
        }
    }

    pub(super) fn pump_replies(&self) {
        let mut frames = Frames::default();
        let mut piece = vec![0; PIECE];
        while let Ok(len) = read(&self.server, &mut piece) {
            frames.feed(&piece[..len]);
            if len == 0 || self.forward_replies(&mut frames).is_err() {
                break;
            }
        }
        if !self.is_over(Direction::Replies) {
            self.close();
        }
    }

    fn forward_requests(&self, frames: &mut Frames) -> io::Result<()> {
        let active = self.shared.active();
        self.check(&active)?;
        delay(&active, Direction::Requests);
        let mut out = Vec::new();
        while let Some(frame) = frames.next_frame() {
            let arguments = arguments(frame);
            let name = arguments.first().map(|name| String::from_utf8_lossy(name).to_uppercase());
            let name = name.unwrap_or_default();
            self.remember(&name, &arguments);
            if self.is_swallowed(&active, Direction::Requests) {
                continue;
            }
            if let Mode::Inject { error, to } = &active.mode
                && to.contain(&name)
            {
                self.send_requests(&mut out)?;
                active.hit();
                self.answer(error)?;
                continue;
            }
            if meant(&active, Direction::Requests, frame) {
                self.send_requests(&mut out)?;
                self.hold(&active)?;
            }
            self.outstanding.lock().unwrap().push_back(frame[..frame.len().min(HEAD)].to_vec());
            out.extend_from_slice(frame);
        }
        self.send_requests(&mut out)
    }

    fn forward_replies(&self, frames: &mut Frames) -> io::Result<()> {
        let active = self.shared.active();
        self.check(&active)?;
        delay(&active, Direction::Replies);
        let mut out = Vec::new();
        let mut answers = 0;
        let mut dropped = false;
        while let Some(frame) = frames.next_frame() {
            if !is_push(frame) {
                answers += 1;
            }
            if self.is_swallowed(&active, Direction::Replies) {
                continue;
            }
            if !is_push(frame) && self.is_dropped(&active, answers - 1, frame) {
                dropped = true;
                break;
            }
            if !is_push(frame) && self.is_meant_reply(&active, answers - 1) {
                self.hold(&active)?;
            }
            out.extend_from_slice(frame);
        }
        (&self.client).write_all(&out)?;
        // Not before the write, so that an injected error cannot overtake a reply.
        let mut outstanding = self.outstanding.lock().unwrap();
        let answered = answers.min(outstanding.len());
        outstanding.drain(..answered);
        self.answered.notify_all();
        if dropped { Err(ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    fn is_swallowed(&self, active: &Active, way: Direction) -> bool {
        let swallowed = self.is_blackholed(active, way);
        if swallowed {
            self.lossy.store(true, Ordering::SeqCst);
            active.hit();
        }
        swallowed
    }

    fn is_blackholed(&self, active: &Active, way: Direction) -> bool {
        let Mode::Blackhole { scope, direction } = &active.mode else { return false };
        let sent = |word: &str| self.words.lock().unwrap().contains(word.as_bytes());
        let in_scope = match scope {
            Scope::All => true,
            Scope::Sent(words) => words.split(' ').any(sent),
            Scope::NeverSent(word) => !sent(word),
            Scope::OpenSent(word) => self.nth < active.since && sent(word),
        };
        in_scope && covers(*direction, way)
    }

    fn is_dropped(&self, active: &Active, nth: usize, reply: &[u8]) -> bool {
        let Mode::DropReplyTo { needle, holding, times } = &active.mode else { return false };
        let asked = self.outstanding.lock().unwrap().get(nth).is_some_and(|head| contains(head, needle));
        asked && contains(reply, holding) && active.hit_within(*times)
    }

    fn is_meant_reply(&self, active: &Active, nth: usize) -> bool {
        let outstanding = self.outstanding.lock().unwrap();
        outstanding.get(nth).is_some_and(|head| meant(active, Direction::Replies, head))
    }

    /// Waits until another mode is set, which may reset this connection.
    fn hold(&self, active: &Arc<Active>) -> io::Result<()> {
        active.hit();
        while Arc::ptr_eq(active, &self.shared.active()) && !self.shared.is_stopping() {
            pause_for(Duration::from_millis(2));
        }
        self.check(&self.shared.active())
    }

    fn remember(&self, name: &str, arguments: &[&[u8]]) {
        let mut words = self.words.lock().unwrap();
        if words.len() < WORDS {
            words.insert(name.as_bytes().to_vec());
            let short = arguments.iter().skip(1).filter(|argument| argument.len() <= WORD);
            words.extend(short.map(|argument| argument.to_vec()));
        }
    }

    fn send_requests(&self, out: &mut Vec<u8>) -> io::Result<()> {
        (&self.server).write_all(out)?;
        out.clear();
        Ok(())
    }

    /// Writes an error to the client as soon as all real replies have passed.
    fn answer(&self, error: &str) -> io::Result<()> {
        let outstanding = self.outstanding.lock().unwrap();
        let waiting =
            |requests: &mut VecDeque<Vec<u8>>| !requests.is_empty() && !self.reset.load(Ordering::SeqCst);
        drop(self.answered.wait_while(outstanding, waiting).unwrap());
        (&self.client).write_all(format!("-{error}\r\n").as_bytes())
    }

    /// Fails if the connection was reset or is about to be, or if it lost bytes and the blackhole is gone, because it cannot
    /// continue then.
    fn check(&self, active: &Active) -> io::Result<()> {
        let useless = self.is_lossy() && !matches!(active.mode, Mode::Blackhole { .. });
        if useless || matches!(active.mode, Mode::Rst) || self.reset.load(Ordering::SeqCst) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// Whether the end of this direction must not be forwarded: the connection is reset or in a blackhole,
    /// which swallows a close as well.
    fn is_over(&self, way: Direction) -> bool {
        if self.reset.load(Ordering::SeqCst) {
            return true;
        }
        let swallowed = self.is_blackholed(&self.shared.active(), way);
        if swallowed {
            self.lossy.store(true, Ordering::SeqCst);
        }
        swallowed
    }

    fn close(&self) {
        self.reset.store(true, Ordering::SeqCst);
        for socket in [&self.client, &self.server] {
            // An error means that the peer has closed it already.
            socket.shutdown(Shutdown::Both).unwrap_or_default();
        }
        self.wake();
    }

    /// Wakes waiting threads. Takes the lock, so that a thread that is about to wait cannot miss it.
    fn wake(&self) {
        let _outstanding = self.outstanding.lock().unwrap();
        self.answered.notify_all();
    }
}

fn read(mut socket: &TcpStream, piece: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.read(piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn meant(active: &Active, passing: Direction, frame: &[u8]) -> bool {
    let Mode::Hold { needle, nth, way } = &active.mode else { return false };
    *way == passing && contains(&frame[..frame.len().min(HEAD)], needle) && active.is_meant(*nth)
}

fn delay(active: &Active, way: Direction) {
    if let Mode::Delay { by, direction } = &active.mode
        && covers(*direction, way)
    {
        active.hit();
        pause_for(*by);
    }
}

fn covers(direction: Direction, way: Direction) -> bool {
    direction == Direction::Both || direction == way
}
