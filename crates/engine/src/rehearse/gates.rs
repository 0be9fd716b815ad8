//! The part of a rehearsal for gates: a job passes one, another waits in its waiting list and is let out.

use std::time::Duration;

use super::super::gates::admit::Admitted;
use super::super::gates::drain::{AttemptEnd, HeldPlace};
use super::{Error, Rehearsal, expect_same, job, only, parsed};
use crate::Due;
use crate::job::{Breaker, FairShare, GateName, JobSpec, Lane, Limits, Parking, Rate, Settlement};

impl Rehearsal<'_> {
    /// Limits a type to one job at once, and runs two of them.
    pub(super) async fn gates(&self) -> Result<(), Error> {
        let gate: GateName = "type:rehearsal".parse().expect("a plain word is a valid type");
        let gates = self.queue.gates();
        gates.configure(&[(gate.clone(), Limits::default())], None).await?;
        expect_same("rule_put", gates.set(&gate, &limits()).await?, true)?;
        gates.close(&gate, "the rehearsal", "rehearsed", Some(Duration::from_secs(1))).await?;
        expect_same("rule_put", gates.open(&gate).await?, true)?;
        expect_same("rules", gates.rules().await?.get(&gate).is_some(), true)?;
        for _ in 0..2 {
            self.queue.append(&[job(Due::Now)], None, None).await?;
        }
        let (first_envelope, first) = self.read().await?;
        expect_same("admit", self.admit(&first, &gate).await?, Admitted::Start)?;
        let (envelope, second) = self.read().await?;
        expect_same("admit", self.admit(&second, &gate).await?, Admitted::Refused(0))?;
        let parking = Parking { waitlist: gate.to_string(), gates: vec![gate.clone()] };
        self.apply(&envelope, &second, &Settlement::Park(parking)).await?;
        expect_same("waitlists", gates.waitlists(10).await?.len(), 1)?;
        let found = self.queue.waitlist_jobs(&[gate.as_str()], None).await?.waitlists;
        expect_same("waitlist_jobs", found.into_iter().flatten().flatten().count(), 1)?;
        self.apply(&first_envelope, &first, &Settlement::Ack).await?;
        let place = HeldPlace {
            gate: gate.clone(),
            entry: (first.lane, first.entry),
            ended: Some(AttemptEnd::Succeeded),
        };
        let drained = self.queue.drain(&[place], &[gate.to_string()]).await?;
        drained.failed.map_or(Ok(()), Err)?;
        expect_same("drain", drained.left, 1)?;
        let (link, count) = (self.queue.link(), 1);
        let (envelope, second) =
            parsed(self.queue.read_lane(link, &self.consumer, Lane::High, count).await?)?;
        expect_same("admit", self.admit(&second, &gate).await?, Admitted::Start)?;
        expect_same("drain", second.own_lane, Lane::Normal)?;
        self.apply(&envelope, &second, &Settlement::Ack).await?;
        gates.list().await?;
        expect_same("rule_put", gates.clear(&gate).await?, true)?;
        self.share().await
    }

    /// Shares the queue: a job goes to the waiting list of its value, and comes back.
    async fn share(&self) -> Result<(), Error> {
        let (gates, share) = (self.queue.gates(), FairShare::new("h.tenant").expect("this is a valid field"));
        gates.configure(&[], Some(&share)).await?;
        self.queue.append(&[job(Due::Now)], None, None).await?;
        // The waiting list of jobs without a value.
        let waitlists = [format!("{}normal:", FairShare::WAITLIST)];
        for (window, want) in [(0, (1, 0)), (1, (0, 1))] {
            let shared = self.queue.share(Some(window), &waitlists).await?;
            shared.failed.map_or(Ok(()), Err)?;
            expect_same("share", (shared.held_back, shared.left), want)?;
        }
        gates.configure(&[], None).await?;
        self.queue.share(None, &[]).await?;
        let (envelope, shared) = self.read().await?;
        self.apply(&envelope, &shared, &Settlement::Ack).await
    }

    async fn admit(&self, job: &JobSpec, gate: &GateName) -> Result<Admitted, Error> {
        let gates = std::slice::from_ref(gate);
        only("admit", self.queue.admit(&self.consumer, job.lane, &[(job, gates)]).await)
    }
}

/// Returns limits of every kind. Only the concurrency refuses anything.
fn limits() -> Limits {
    const SECOND: Duration = Duration::from_secs(1);
    let rate = Rate::new(100, SECOND).and_then(|rate| rate.with_burst(100)).expect("this is a valid rate");
    let breaker = Breaker::new(1.0, 1000, 60 * SECOND, SECOND).expect("this is a valid breaker");
    Limits::default().concurrency(1).rate(rate).breaker(breaker)
}
