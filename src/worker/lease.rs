//! The lease of an entry that this process holds: when Redis last confirmed it, and whether its attempt is cut short.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::rules_check::RulesCheck;
use crate::broker::mutex::lock;
use crate::job::{EntryId, Lane, Outcome};

/// The lease of one entry that this process holds, and the end of its attempt. Times are milliseconds since the read.
#[derive(Debug)]
pub(crate) struct HeldLease {
    /// When the read was certainly not yet answered. This may be long before the process noticed the entry.
    read_at: Instant,
    /// When Redis last confirmed that the entry is ours.
    renewed: AtomicU64,
    /// The lease is not renewed after this time, so that a handler that cannot be stopped does not keep its job. Once it has
    /// ended, there is no such time.
    renew_until: AtomicU64,
    /// When its attempt began; `u64::MAX` before that.
    begun: AtomicU64,
    /// How often the rules of the gates had changed when it was asked whether the attempt may start; `u64::MAX` if that never
    /// matters.
    asked_after: AtomicU64,
    /// Not before this time, the job may have expired; `u64::MAX` if it never does.
    expires: AtomicU64,
    /// Whether the handler has returned without beginning the job, so that it must be asked about again.
    unbegun: AtomicBool,
    /// The time that does not count, because the attempt could not use it.
    pauses: Mutex<Pauses>,
    lost: AtomicBool,
    /// Whether the attempt has an outcome.
    is_settling: AtomicBool,
    /// Whether the attempt was cut short, and why.
    cut: AtomicU8,
    /// Whether the handler knows, or may know, that its attempt is cut short.
    aware: AtomicBool,
    /// Created when somebody wants to wait for it. Most attempts end before that.
    token: OnceLock<CancellationToken>,
}

/// When the clock of an attempt was paused.
#[derive(Debug, Default)]
struct Pauses {
    /// How long all pauses took that have ended.
    ended: Duration,
    /// Since when it is paused now.
    since: Option<Instant>,
}

/// The attempt continues.
const UNCUT: u8 = 0;
/// It was cut short, and its job continues.
const CUT: u8 = 1;
/// It was cut short, and its job ends with it.
const CANCELLED: u8 = 2;

/// The key of an entry in a queue: its lane and its id.
pub(crate) type EntryKey = (Lane, EntryId);

impl HeldLease {
    pub(crate) fn new(read_at: Instant) -> Self {
        Self {
            read_at,
            renewed: AtomicU64::new(0),
            renew_until: AtomicU64::new(u64::MAX),
            begun: AtomicU64::new(u64::MAX),
            asked_after: AtomicU64::new(u64::MAX),
            expires: AtomicU64::new(u64::MAX),
            unbegun: AtomicBool::new(false),
            pauses: Mutex::default(),
            lost: AtomicBool::new(false),
            is_settling: AtomicBool::new(false),
            cut: AtomicU8::new(UNCUT),
            aware: AtomicBool::new(false),
            token: OnceLock::new(),
        }
    }

    fn ms_since_read(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.read_at).as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that Redis confirmed the lease of an entry; `asked` is when the question was sent.
    pub(crate) fn renew(&self, asked: Instant) {
        self.renewed.fetch_max(self.ms_since_read(asked), Ordering::Relaxed);
    }

    /// Returns how long ago Redis last confirmed that the entry is ours.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        Duration::from_millis(self.ms_since_read(now).saturating_sub(self.renewed.load(Ordering::Relaxed)))
    }

    /// Notes that the attempt begins.
    pub(crate) fn begin(&self, now: Instant) {
        self.begun.store(self.ms_since_read(now), Ordering::Relaxed);
    }

    /// Notes that it is being asked whether the attempt may start, after the rules have changed this often.
    pub(crate) fn ask(&self, changes: u64) {
        self.asked_after.store(changes, Ordering::Relaxed);
        self.expires.store(u64::MAX, Ordering::Relaxed);
    }

    /// Notes that the job does not expire before this time.
    pub(crate) fn expires_at(&self, time: Instant) {
        self.expires.store(self.ms_since_read(time), Ordering::Relaxed);
    }

    /// Returns true if what was answered then may no longer hold.
    pub(crate) fn is_in_doubt(&self, rules: &RulesCheck, now: Instant) -> bool {
        let changes = self.asked_after.load(Ordering::Relaxed);
        self.ms_since_read(now) >= self.expires.load(Ordering::Relaxed)
            || changes != u64::MAX && !rules.still_holds(changes, now)
    }

    /// Notes that the handler returns without having begun the job.
    pub(crate) fn note_unbegun(&self) {
        self.unbegun.store(true, Ordering::Relaxed);
    }

    /// Returns true, once, if the handler has returned without having begun the job, and may still begin it. The job's clock then
    /// starts again.
    pub(crate) fn take_unbegun(&self) -> bool {
        // Nearly always, so a plain read comes first.
        if !self.unbegun.load(Ordering::Relaxed) {
            return false;
        }
        self.unbegun.store(false, Ordering::Relaxed);
        *lock(&self.pauses) = Pauses::default();
        !self.is_cut()
    }

    /// Returns how long the attempt has run; zero before it begins.
    pub(crate) fn running(&self, now: Instant) -> Duration {
        Duration::from_millis(self.ms_since_read(now).saturating_sub(self.begun.load(Ordering::Relaxed)))
    }

    pub(crate) fn renew_until(&self, deadline: Instant) {
        self.is_settling.store(false, Ordering::Relaxed);
        self.renew_until.store(self.ms_since_read(deadline), Ordering::Relaxed);
    }

    /// Renews the lease until this time, or longer if it was to be renewed for longer.
    pub(crate) fn renew_at_least_until(&self, deadline: Instant) {
        self.is_settling.store(false, Ordering::Relaxed);
        self.renew_until.fetch_max(self.ms_since_read(deadline), Ordering::Relaxed);
    }

    /// Notes that the attempt has an outcome, which this process holds until Redis has it.
    pub(crate) fn renew_until_settled(&self) {
        self.is_settling.store(true, Ordering::Relaxed);
        self.renew_until.store(u64::MAX, Ordering::Relaxed);
    }

    pub(crate) fn is_renewable(&self, now: Instant) -> bool {
        let at = now.checked_sub(self.paused_for(now)).unwrap_or(now);
        !self.lost.load(Ordering::Relaxed)
            && self.ms_since_read(at) < self.renew_until.load(Ordering::Relaxed)
    }

    /// Pauses the attempt's clock until [`HeldLease::resume`].
    pub(crate) fn pause(&self, now: Instant) {
        lock(&self.pauses).since.get_or_insert(now);
    }

    /// Resumes the attempt's clock.
    pub(crate) fn resume(&self, now: Instant) {
        let mut pauses = lock(&self.pauses);
        if let Some(since) = pauses.since.take() {
            pauses.ended += now.saturating_duration_since(since);
        }
    }

    /// Returns how long the attempt's clock was paused: its deadline is that much later.
    pub(crate) fn paused_for(&self, now: Instant) -> Duration {
        let pauses = lock(&self.pauses);
        pauses.ended + pauses.since.map(|since| now.saturating_duration_since(since)).unwrap_or_default()
    }

    /// Marks the lease as lost and ends the attempt. Returns true the first time.
    pub(crate) fn lose(&self) -> bool {
        let first = !self.lost.swap(true, Ordering::Relaxed);
        self.cut();
        first
    }

    /// Returns true if the attempt has an outcome, so that Redis may have ended the entry at any time.
    pub(crate) fn is_settling(&self) -> bool {
        self.is_settling.load(Ordering::Relaxed)
    }

    /// Returns true if the lease is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Ends the attempt: by its timeout, by shutdown, or because the lease is lost.
    pub(crate) fn cut(&self) {
        self.end(CUT);
    }

    /// Ends the attempt because somebody wants its job cancelled. Returns true the first time.
    pub(crate) fn cancel(&self) -> bool {
        self.end(CANCELLED)
    }

    /// Ends the attempt; the first reason stays.
    fn end(&self, why: u8) -> bool {
        let first = self.cut.compare_exchange(UNCUT, why, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if let Some(token) = self.token.get() {
            token.cancel();
        }
        first
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst) != UNCUT
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cut.load(Ordering::SeqCst) == CANCELLED
    }

    /// Returns the outcome of an attempt that was cut short.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.is_cancelled() { Outcome::Cancelled } else { Outcome::Interrupted }
    }

    /// Notes that the handler has seen, or may yet see, that it is cut short.
    pub(crate) fn mark_aware(&self) {
        self.aware.store(true, Ordering::Relaxed);
    }

    /// Notes that the handler cannot know about a cut, or that it ended on its own.
    pub(crate) fn mark_unaware(&self) {
        self.aware.store(false, Ordering::Relaxed);
    }

    /// Returns false if the handler ended on its own, and not as the consequence of a cut.
    pub(crate) fn is_aware(&self) -> bool {
        self.aware.load(Ordering::Relaxed)
    }

    /// Returns a token that is cancelled when the attempt is cut.
    pub(crate) fn token(&self) -> &CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new);
        // Either `end` saw the token, or we see that the attempt was cut.
        if self.is_cut() {
            token.cancel();
        }
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_never_goes_back_in_time() {
        let start = Instant::now();
        let held_lease = HeldLease::new(start);
        held_lease.renew(start + Duration::from_secs(5));
        held_lease.renew(start + Duration::from_secs(2));
        assert_eq!(held_lease.silence(start + Duration::from_secs(6)), Duration::from_secs(1));
    }

    #[test]
    fn a_lease_counts_from_its_read_however_long_ago_that_was() {
        let hour = Duration::from_secs(3_600);
        let read_at = Instant::now().checked_sub(hour).unwrap();
        assert!(HeldLease::new(read_at).silence(Instant::now()) >= hour);
    }

    #[test]
    fn a_pause_of_its_clock_moves_the_end_of_an_attempt() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let held_lease = HeldLease::new(start);
        held_lease.renew_until(at(100));
        assert!(!held_lease.is_renewable(at(150)));
        held_lease.pause(at(50));
        assert!(held_lease.is_renewable(at(10_000)));
        held_lease.resume(at(1050));
        assert_eq!(held_lease.paused_for(at(5000)), Duration::from_millis(1000));
        assert!(held_lease.is_renewable(at(1099)) && !held_lease.is_renewable(at(1101)));
        held_lease.pause(at(2000));
        held_lease.resume(at(2500));
        assert_eq!(held_lease.paused_for(at(5000)), Duration::from_millis(1500));
    }

    #[test]
    fn what_was_answered_is_in_doubt_once_the_rules_change_or_the_job_may_have_expired() {
        let (held_lease, rules, now) = (HeldLease::new(Instant::now()), RulesCheck::new(), Instant::now());
        assert!(!held_lease.is_in_doubt(&rules, now), "nobody was asked");
        rules.note_checked();
        held_lease.ask(rules.changes());
        assert!(!held_lease.is_in_doubt(&rules, now));
        let second = Duration::from_secs(1);
        held_lease.expires_at(now + second / 2);
        assert!(!held_lease.is_in_doubt(&rules, now) && held_lease.is_in_doubt(&rules, now + second / 2));
        held_lease.ask(rules.changes());
        assert!(!held_lease.is_in_doubt(&rules, now + second / 2));
        rules.note_change();
        assert!(held_lease.is_in_doubt(&rules, now));
    }

    #[test]
    fn a_handler_that_has_not_begun_its_job_is_noted_once_and_its_pauses_are_forgotten() {
        let (held_lease, now) = (HeldLease::new(Instant::now()), Instant::now());
        held_lease.pause(now);
        held_lease.resume(now + Duration::from_secs(1));
        assert!(!held_lease.take_unbegun() && held_lease.paused_for(now) == Duration::from_secs(1));
        held_lease.note_unbegun();
        assert!(held_lease.take_unbegun() && !held_lease.take_unbegun());
        assert_eq!(held_lease.paused_for(now), Duration::ZERO);
    }

    #[test]
    fn a_lost_lease_ends_the_attempt_and_is_not_renewed() {
        let held_lease = HeldLease::new(Instant::now());
        assert!(held_lease.lose());
        assert!(!held_lease.lose());
        assert!(held_lease.is_cut());
        assert!(!held_lease.is_renewable(Instant::now()));
    }

    #[test]
    fn a_lease_is_settling_from_its_outcome_until_another_step_begins() {
        let held_lease = HeldLease::new(Instant::now());
        assert!(!held_lease.is_settling());
        held_lease.renew_until_settled();
        assert!(held_lease.is_settling());
        held_lease.renew_until(Instant::now());
        assert!(!held_lease.is_settling());
    }

    #[test]
    fn the_first_reason_to_end_an_attempt_stays() {
        let (stopped, unwanted) = (HeldLease::new(Instant::now()), HeldLease::new(Instant::now()));
        stopped.cut();
        assert!(!stopped.cancel());
        assert_eq!(stopped.outcome(), Outcome::Interrupted);
        assert!(unwanted.cancel() && !unwanted.cancel());
        unwanted.lose();
        assert_eq!(unwanted.outcome(), Outcome::Cancelled);
    }

    #[test]
    fn tokens_made_before_or_after_the_cut_are_cancelled() {
        let before = HeldLease::new(Instant::now());
        let token = before.token().clone();
        before.cut();
        assert!(token.is_cancelled());
        let after = HeldLease::new(Instant::now());
        after.cut();
        assert!(after.token().is_cancelled());
    }
}
