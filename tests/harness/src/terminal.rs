//! A terminal for a program that needs one: keys, and the screen that results from what the program writes.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// A terminal.
pub struct Terminal {
    /// Where the person sits.
    person: File,
    /// Where the program is.
    program: File,
    screen: Arc<Mutex<Screen>>,
}

impl Terminal {
    pub fn open(columns: u16, lines: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let size = Winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&person, size).unwrap();
        let path = ptsname(&person, Vec::new()).unwrap();
        let program = open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let (person, program) = (File::from(person), File::from(program));
        let screen = Arc::new(Mutex::new(Screen::new(columns, lines)));
        let (mut written, follower) = (person.try_clone().unwrap(), Arc::clone(&screen));
        // It ends with an error once nobody has the other end any more.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = written.read(&mut bytes) {
                follower.lock().unwrap().take(&bytes[..count]);
            }
        });
        Self { person, program, screen }
    }

    /// The program's stdin, stdout and stderr.
    pub(crate) fn ends(&self) -> [File; 3] {
        [(); 3].map(|()| self.program.try_clone().unwrap())
    }

    /// Presses keys: `\r` for Enter, `\u{1b}` for Esc.
    pub fn press(&self, keys: &str) {
        (&self.person).write_all(keys.as_bytes()).unwrap();
    }

    /// What is on the screen.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap().text()
    }

    pub fn shows(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// Whether a program has taken it.
    pub fn is_taken(&self) -> bool {
        self.screen.lock().unwrap().is_alternate
    }

    /// Whether it is as a shell needs it: lines are edited and shown, the cursor is visible, and the usual screen is back.
    pub fn is_given_back(&self) -> bool {
        let modes = tcgetattr(&self.program).unwrap().local_modes;
        let screen = self.screen.lock().unwrap();
        let is_cooked = modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        is_cooked && !screen.is_alternate && screen.has_cursor
    }
}

/// A test that fails shows the screen.
impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the screen shows:\n{}",
                self.screen.lock().unwrap_or_else(|broken| broken.into_inner()).text()
            );
        }
    }
}

/// What a terminal does with what is written to it, as far as these tests need it. Every character takes one column.
struct Screen {
    cells: Vec<Vec<char>>,
    line: usize,
    column: usize,
    is_alternate: bool,
    has_cursor: bool,
    /// What is not complete yet.
    rest: Vec<u8>,
}

impl Screen {
    fn new(columns: u16, lines: u16) -> Self {
        let cells = vec![vec![' '; columns.into()]; lines.into()];
        Self { cells, line: 0, column: 0, is_alternate: false, has_cursor: true, rest: Vec::new() }
    }

    fn text(&self) -> String {
        self.cells.iter().map(|line| line.iter().collect::<String>() + "\n").collect()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.rest);
        // A character may be cut at the end.
        let valid = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
        let text = String::from_utf8_lossy(&bytes[..valid]).into_owned();
        let mut left = text.as_str();
        while let Some(c) = left.chars().next() {
            let after = &left[c.len_utf8()..];
            if c != '\u{1b}' {
                self.put(c);
                left = after;
                continue;
            }
            let Some(sequence) = after.strip_prefix('[') else {
                let Some(other) = after.chars().next() else { break };
                left = &after[other.len_utf8()..];
                continue;
            };
            let Some(end) = sequence.find(|c: char| ('@'..='~').contains(&c)) else { break };
            self.obey(&sequence[..end], sequence.as_bytes()[end]);
            left = &sequence[end + 1..];
        }
        self.rest = [left.as_bytes(), &bytes[valid..]].concat();
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\n' => self.line += 1,
            c if c.is_control() => {}
            c => {
                if let Some(cell) = self.cells.get_mut(self.line).and_then(|line| line.get_mut(self.column)) {
                    *cell = c;
                }
                self.column += 1;
            }
        }
    }

    fn obey(&mut self, parameters: &str, command: u8) {
        match (command, parameters) {
            (b'H', _) => {
                let mut numbers = parameters.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
                let mut next = || numbers.next().unwrap_or(1).saturating_sub(1);
                (self.line, self.column) = (next(), next());
            }
            (b'J', _) => self.cells.iter_mut().for_each(|line| line.fill(' ')),
            (b'h', "?1049") => self.is_alternate = true,
            (b'l', "?1049") => self.is_alternate = false,
            (b'h', "?25") => self.has_cursor = true,
            (b'l', "?25") => self.has_cursor = false,
            // Colors, and what no program here uses.
            _ => {}
        }
    }
}
