//! The end of a program and of its session: what becomes of the jobs that the program has not answered. If it had several, nobody
//! knows which one is to blame, unless it has said so: these are lost, and none has an error that may be about another.

use std::process::ExitStatus;

use super::jobs::Running;
use super::request::Answer;
use super::session::Session;
use crate::event::PoolEnding;
use crate::handlers::excerpt::{error_text, stopped_text};

/// What stands in an error in place of the end of standard error if nobody knows which of several jobs it is about.
pub(super) const MIXED: &str =
    "it had several jobs, so what it wrote on standard error is only in the worker's log";

/// How a session ended.
pub(super) struct Ended {
    pub(super) ending: PoolEnding,
    /// What happened, for people.
    pub(super) why: String,
    /// How many jobs the program answered.
    pub(super) answered: u64,
}

impl Session<'_> {
    /// Reaps the program, and ends the jobs that it has not answered.
    pub(super) async fn end(mut self) -> Ended {
        let (status, words) = self.program.end().await;
        let status = status.as_ref().ok();
        let shown = status.map_or_else(|| "lost".to_owned(), ToString::to_string);
        // After `bye`, the program has not begun the jobs of which it said nothing.
        let said_bye = self.said_bye && status.is_some_and(ExitStatus::success);
        let is_begun = |running: &Running| running.sent && (running.heard || (running.begun && !said_bye));
        let ending = ending(self.closing, status, self.jobs.any(is_begun));
        let had_several = self.jobs.count(|running| running.begun) > 1;
        // A job must not get what the program wrote about another one.
        let own = if had_several { MIXED } else { &words.own };
        // The first one to go back comes first again.
        for running in self.jobs.drain().into_iter().rev() {
            let is_begun = is_begun(&running);
            let Running { request, cut, .. } = running;
            let asked = cut.as_ref().filter(|cut| cut.asked || ending == PoolEnding::Cut);
            let by_itself = asked.is_none();
            let how = match (&self.nonsense, asked) {
                (_, None) if !is_begun => {
                    self.pool.slots.put_back(request);
                    continue;
                }
                (None, None) if matches!(ending, PoolEnding::Cut | PoolEnding::Stopped) => {
                    request.answer.send(Answer::Released).ok();
                    continue;
                }
                (nonsense, None) if had_several || self.is_blamed => {
                    let wrote = if nonsense.is_some() { " because it wrote nonsense" } else { "" };
                    let cause =
                        if self.is_blamed { "because of another job" } else { "while it had several jobs" };
                    let why = format!("the program ended{wrote} {cause} ({shown})");
                    request.answer.send(Answer::Lost(why)).ok();
                    continue;
                }
                (Some(why), _) => format!("the program was ended because it wrote nonsense ({why})"),
                (None, Some(cut)) => format!("stopped because of {} ({shown})", cut.reason),
                (None, None) => format!("the program ended without an answer ({shown})"),
            };
            let was_ended = self.nonsense.is_some() || !by_itself;
            let error = if was_ended { stopped_text(&how, own) } else { error_text(&how, own) };
            request.answer.send(Answer::Ended { error, by_itself }).ok();
        }
        // What it wrote about the jobs before was logged then, and what it wrote about one that was cut short is in its error.
        let wrote = if had_several { words.all.as_str() } else { words.own.as_str() };
        let wrote = if ending == PoolEnding::Cut { "" } else { wrote };
        self.seat.set_memory(0);
        let why = self.nonsense.as_deref().map(|why| format!("nonsense: {why}")).unwrap_or(shown);
        Ended { ending, why: stopped_text(&why, wrote), answered: self.answered }
    }
}

/// Returns how a program ended, given why it took no more jobs, and whether it owes an answer.
fn ending(closing: Option<PoolEnding>, status: Option<&ExitStatus>, owes: bool) -> PoolEnding {
    let crashed = owes || !status.is_some_and(ExitStatus::success);
    match closing {
        None | Some(PoolEnding::Exited) if crashed => PoolEnding::Crashed,
        None => PoolEnding::Exited,
        Some(why) => why,
    }
}
