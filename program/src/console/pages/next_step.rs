//! What happens to a job next, and when, in words.

use streamfleet::admin::Status;
use streamfleet::job::State;

use super::frame::Frame;

/// Says it.
pub(super) fn of(frame: &Frame, status: &Status) -> String {
    let due = status.due.filter(|due| *due > status.now).map(|due| frame.distance(due, status.now));
    match status.state {
        State::Waiting => match status.room.as_deref() {
            Some(gate) if gate.starts_with("fair:") => frame.t("next.turn").to_owned(),
            Some(gate) => frame.fill("next.gate", &[("gate", &frame.about(gate))]),
            None => frame.fill("next.waiting", &[("lane", status.lane.as_str())]),
        },
        State::Running if status.cancelling.is_some() => frame.t("next.cancelling").to_owned(),
        State::Running => frame.fill("next.running", &[("worker", status.worker.as_deref().unwrap_or("?"))]),
        State::Scheduled => match due {
            Some(time) => frame.fill("next.scheduled", &[("time", &time)]),
            None => frame.t("next.due").to_owned(),
        },
        State::Retrying => match due {
            Some(time) => frame.fill("next.retrying", &[("time", &time)]),
            None => frame.t("next.due").to_owned(),
        },
        State::Dead => frame.t("next.dead").to_owned(),
        State::Done => frame.t("next.done").to_owned(),
        State::Cancelled => frame.t("next.cancelled").to_owned(),
    }
}
