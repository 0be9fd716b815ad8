//! What happens to a job next, when, and what may come in between, in words.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::job::{Envelope, GateName, JobType, State, Timestamp};
use streamfleet_engine::admin::{Holdings, Status};

use super::frame::Frame;
use crate::console::site::Site;
use crate::times::short;
use streamfleet_operations::gates::Standing;

/// What may come in between.
#[derive(Debug, Default)]
pub(super) struct Prospects {
    /// When the running attempt began, if its worker has reported that.
    pub(super) began: Option<Timestamp>,
    /// How long an attempt may run, if that is known.
    timeout: Option<Duration>,
    /// When the job expires.
    expires: Option<Timestamp>,
    /// The gate that somebody has closed before it.
    pause: Option<(GateName, Standing)>,
}

impl Prospects {
    /// Reads them. What cannot be read is missing: the rest of the page is worth seeing without it.
    pub(super) async fn read(
        site: &Site,
        (queue, status): (&Queue, &Status),
        fields: Option<&Envelope>,
    ) -> Self {
        let number = |name: &str| -> Option<u64> {
            let value = fields?.get(name.as_bytes())?;
            std::str::from_utf8(value).ok()?.parse().ok()
        };
        let job_type = status.job_type.parse::<JobType>().ok();
        let section = job_type.as_ref().and_then(|name| site.effective().config.types.get(name));
        // That of a type with steps is for one step.
        let of_type = section.filter(|section| section.steps.is_none()).map(|section| section.policy.timeout);
        let is_over = status.state.is_final();
        Self {
            began: if status.state == State::Running { began(site, queue, status).await } else { None },
            timeout: number("timeout_ms").map(Duration::from_millis).or(of_type),
            expires: number("expires_at_ms").and_then(Timestamp::from_ms),
            pause: match job_type.filter(|_| !is_over && status.state != State::Running) {
                Some(job_type) => pause(queue, status, &job_type).await,
                None => None,
            },
        }
    }

    /// Says it: what may come in between, each in a sentence.
    fn sentences(&self, frame: &Frame, status: &Status) -> Vec<String> {
        let now = status.now;
        let at = |key: &str, time: Timestamp| frame.fill(key, &[("time", &frame.distance(time, now))]);
        if status.state == State::Running {
            let Some(timeout) = self.timeout else { return Vec::new() };
            let deadline = self.began.map(|began| began.after(timeout));
            return vec![match deadline {
                Some(deadline) => at("next.deadline", deadline),
                None => frame.fill("next.timeout", &[("time", &short(timeout))]),
            }];
        }
        if status.state.is_final() {
            return Vec::new();
        }
        let paused = self.pause.as_ref().and_then(|(gate, standing)| paused(frame, gate, standing, now));
        let expires = self.expires.map(|expires| {
            if expires <= now { frame.t("next.expired").to_owned() } else { at("next.expires", expires) }
        });
        paused.into_iter().chain(expires).collect()
    }
}

/// When the running attempt began, as its worker reported it.
async fn began(site: &Site, queue: &Queue, status: &Status) -> Option<Timestamp> {
    let known = site.known().await.ok()?;
    Holdings::of(&known.workers).since(status.worker.as_deref()?, queue.name(), status.entry?)
}

/// The gate that somebody has closed before a job: the one it waits at, that of its queue, or that of its type.
async fn pause(queue: &Queue, status: &Status, job_type: &JobType) -> Option<(GateName, Standing)> {
    let rules = queue.gates().rules().await.ok()?;
    let room = status.room.as_deref().and_then(|room| room.parse::<GateName>().ok());
    let gates = room.into_iter().chain([GateName::queue(), GateName::of_type(job_type)]);
    let standing = gates.filter_map(|gate| {
        let standing = Standing::of(rules.get(&gate)?, None, status.now);
        matches!(standing, Standing::Paused { .. }).then_some((gate, standing))
    });
    standing.last()
}

fn paused(frame: &Frame, gate: &GateName, standing: &Standing, now: Timestamp) -> Option<String> {
    let Standing::Paused { by, reason, until, .. } = standing else { return None };
    let gate = frame.about(gate.as_str());
    let text = match until {
        Some(until) => {
            frame.fill("next.paused_until", &[("gate", &gate), ("time", &frame.distance(*until, now))])
        }
        None => frame.fill("next.paused", &[("gate", &gate)]),
    };
    let reason = frame.written(reason);
    let why: Vec<&str> = [&**by, &*reason].into_iter().filter(|text| !text.is_empty()).collect();
    Some(if why.is_empty() { text } else { format!("{text} ({})", why.join(": ")) })
}

/// Says what happens next.
pub(super) fn of(frame: &Frame, status: &Status, prospects: &Prospects) -> String {
    let due = status.due.filter(|due| *due > status.now).map(|due| frame.distance(due, status.now));
    let next = match status.state {
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
    };
    [vec![next], prospects.sentences(frame, status)].concat().join(" ")
}
