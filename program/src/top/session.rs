//! Carries out what the state says: draws it, takes keys, and asks Redis beside them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::Signal;
use streamfleet_operations::Actor;
use streamfleet_sql::Options;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::action::{Desk, perform};
use super::screen::{Input, Screen};
use super::state::{Effect, Event, State};
use super::{Args, read};
use crate::exit::Exit;
use crate::{Context, actor, output};
use streamfleet_sql::LazyDatabase;

/// How often the state learns the time.
const TICK: Duration = Duration::from_millis(250);

/// Shows the fleet until somebody quits or a signal comes.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let config = &context.effective.config;
    let who = args.by.filter(|name| !name.trim().is_empty()).unwrap_or_else(actor::user);
    let mut state = State::new(broker.shown(), who, args.every);
    let desk = Desk {
        broker,
        names: args.names.into(),
        effective: Arc::new(context.effective.clone()),
        history: config
            .history
            .clone()
            .map(|history| Arc::new(LazyDatabase::new(move || history.address(), Options::reading()))),
        configured: config.queues.keys().cloned().collect(),
        schemas: context.schemas().map(Arc::new).map_err(|wrong| wrong.to_string()),
        clock: context.clock.clone(),
    };
    let mut screen = Screen::take(context.output.has_color()).context("cannot use the terminal")?;
    let history = desk.history.clone();
    let ended = serve(&mut state, &mut screen, desk, context).await;
    drop(screen);
    if let Some(history) = history {
        history.close().await;
    }
    if state.acting > 0 {
        output::print_stderr("an action had no answer yet: it may or may not have been carried out");
    }
    ended.map(|()| Exit::Done)
}

async fn serve(state: &mut State, screen: &mut Screen, desk: Desk, context: &Context) -> anyhow::Result<()> {
    let mut keys = screen.keys().context("cannot read keys")?;
    let mut stops = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut errands = Errands { desk, running: JoinSet::new(), reading: None };
    let (started, mut ticks) = (Instant::now(), tokio::time::interval(TICK));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(state).context("cannot write to the terminal")?;
        let event = tokio::select! {
            () = context.shutdown.requested() => return Ok(()),
            _ = stops.recv() => {
                screen.suspend()?;
                None
            }
            event = pressed(&mut keys) => event?,
            event = errands.next() => event?,
            _ = ticks.tick() => Some(Event::Time(started.elapsed())),
        };
        match event.and_then(|event| state.update(event)) {
            Some(Effect::Quit) => return Ok(()),
            Some(Effect::Suspend) => screen.suspend()?,
            Some(Effect::Read(number, place)) => {
                let desk = errands.desk.clone();
                let reading = async move { Event::Read(number, Box::pin(read::read(place, desk)).await) };
                let reading = errands.running.spawn(reading);
                if let Some(before) = errands.reading.replace(reading) {
                    before.abort();
                }
            }
            Some(Effect::Act(action, reason)) => {
                let (actor, desk) = (Actor::new(&state.who, &reason), errands.desk.clone());
                let acting =
                    async move { Event::Acted(Box::pin(perform(action, actor, desk)).await, reason) };
                errands.running.spawn(acting);
            }
            None => {}
        }
    }
}

/// Waits for a key, or for another size of the terminal.
async fn pressed(keys: &mut mpsc::Receiver<Input>) -> anyhow::Result<Option<Event>> {
    match keys.recv().await {
        Some(Input::Key(key)) => Ok(Some(Event::Key(key))),
        Some(Input::Resized) => Ok(None),
        Some(Input::Gone(error)) => Err(error).context("cannot read keys"),
        None => Err(anyhow::anyhow!("cannot read keys")),
    }
}

/// What is read and done beside the keys.
struct Errands {
    desk: Desk,
    running: JoinSet<Event>,
    /// The last read, which may have ended.
    reading: Option<AbortHandle>,
}

impl Errands {
    /// Waits until one has ended.
    async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        match self.running.join_next().await {
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) if error.is_cancelled() => Ok(None),
            Some(Err(error)) => Err(error.into()),
            None => std::future::pending().await,
        }
    }
}
