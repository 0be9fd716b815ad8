//! The terminal: taken while `top` shows something, and given back however it ends.

use std::io::{self, Stdout};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;

use super::key::Key;
use super::state::State;
use super::view;

/// How often the thread that reads keys looks whether it should end.
const LOOK: Duration = Duration::from_millis(100);

/// How many keys wait, at most. The terminal keeps further ones.
const MAX_KEYS: usize = 256;

/// The terminal while `top` has it.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    has_color: bool,
    ended: Arc<AtomicBool>,
}

/// What comes from the terminal.
pub(super) enum Input {
    /// A key was pressed.
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// Nothing can be read any more.
    Gone(io::Error),
}

impl Screen {
    /// Takes the terminal. A panic gives it back before it prints its message.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be read or changed.
    pub(super) fn take(has_color: bool) -> io::Result<Self> {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Nothing more can be done if it fails.
            give_back().ok();
            usual(info);
        }));
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let screen = Self { terminal, has_color, ended: Arc::default() };
        seize()?;
        Ok(screen)
    }

    /// Draws the state.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be written.
    pub(super) fn draw(&mut self, state: &State) -> io::Result<()> {
        let has_color = self.has_color;
        self.terminal.draw(|frame| view::draw(state, frame.buffer_mut(), has_color)).map(drop)
    }

    /// Starts to read keys, beside everything else.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub(super) fn keys(&self) -> io::Result<mpsc::Receiver<Input>> {
        let (to, keys) = mpsc::channel(MAX_KEYS);
        let ended = Arc::clone(&self.ended);
        let listen = move || {
            while !ended.load(Ordering::Relaxed) {
                let input = match next() {
                    Ok(Some(input)) => input,
                    Ok(None) => continue,
                    Err(error) => Input::Gone(error),
                };
                let is_gone = matches!(input, Input::Gone(_));
                if to.blocking_send(input).is_err() || is_gone {
                    return;
                }
            }
        };
        thread::Builder::new().name("keys".to_owned()).spawn(listen)?;
        Ok(keys)
    }

    /// Gives the terminal back, stops this process as Ctrl-Z does, and takes the terminal again when the process goes on.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be changed.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back()?;
        kill_process(getpid(), Signal::STOP)?;
        seize()?;
        // Everything is drawn anew. `Terminal::clear` would ask for the cursor, whose answer the keys' thread reads.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Nothing more can be done if it fails.
        give_back().ok();
    }
}

/// Waits a little for what comes from the terminal.
fn next() -> io::Result<Option<Input>> {
    if !event::poll(LOOK)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(event) if event.kind != KeyEventKind::Release => Key::of(event).map(Input::Key),
        Event::Resize(..) => Some(Input::Resized),
        Event::Key(_) | Event::Mouse(_) | Event::Paste(_) | Event::FocusGained | Event::FocusLost => None,
    })
}

fn seize() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)
}

fn give_back() -> io::Result<()> {
    disable_raw_mode()?;
    execute!(io::stdout(), LeaveAlternateScreen, Show)
}
