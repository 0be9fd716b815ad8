//! The combined opinion of the sentinels. Pure: time is an argument.

use std::time::{Duration, Instant};

use fred::types::config::Server;

use super::announcement::Announcement;
use crate::client::error::Error;

/// The last answer of one sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// It has not been asked yet.
    NotAsked,
    /// It does not answer, for this reason.
    Silent(String),
    /// It answers but refuses us: a wrong password, missing rights, or not a sentinel at all.
    Refused(String),
    /// It does not watch a primary of this name.
    UnknownService,
    /// It names this server as the primary.
    Primary(Server),
}

/// After an announcement, answers are ignored for this long: a sentinel that has not yet learned of the change still
/// names the old primary.
const TRUST_ANNOUNCEMENT_FOR: Duration = Duration::from_secs(4);

/// How long an announced change is waited for; it usually takes about a second.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(3);

/// Everything known from the sentinels.
#[derive(Debug)]
pub(super) struct Opinion {
    names: Vec<String>,
    views: Vec<View>,
    primary: Option<Server>,
    announced: Option<Instant>,
    changing: Option<Instant>,
}

impl Opinion {
    pub(super) fn new(sentinels: &[Server]) -> Self {
        Self {
            names: sentinels.iter().map(ToString::to_string).collect(),
            views: vec![View::NotAsked; sentinels.len()],
            primary: None,
            announced: None,
            changing: None,
        }
    }

    /// The primary, as far as it is known.
    pub(super) fn primary(&self) -> Option<&Server> {
        self.primary.as_ref()
    }

    /// How long to wait for a change of the primary, if one is in progress.
    pub(super) fn changing_until(&self, now: Instant) -> Option<Instant> {
        self.changing.map(|since| since + CHANGE_TIMEOUT).filter(|until| *until > now)
    }

    /// Notes what one sentinel answered, or that it did not. The others overrule it, unless none of them names a
    /// primary.
    pub(super) fn note_answer(&mut self, sentinel: usize, view: View, now: Instant) {
        self.views[sentinel] = view;
        let fresh =
            self.announced.is_some_and(|at| now.saturating_duration_since(at) < TRUST_ANNOUNCEMENT_FOR);
        if !fresh && let Some(majority) = self.majority() {
            self.set_primary(majority);
        }
    }

    /// Notes what one sentinel announced.
    pub(super) fn note_announcement(&mut self, sentinel: usize, announcement: Announcement, now: Instant) {
        match announcement {
            Announcement::Changing => self.changing = Some(now),
            Announcement::Aborted => self.changing = None,
            Announcement::Primary(server) => {
                self.views[sentinel] = View::Primary(server.clone());
                self.announced = Some(now);
                self.changing = None;
                self.primary = Some(server);
            }
        }
    }

    fn set_primary(&mut self, primary: Server) {
        if self.primary.as_ref() != Some(&primary) {
            self.changing = None;
            self.primary = Some(primary);
        }
    }

    /// Decides with the answers so far, because some sentinels take too long.
    pub(super) fn decide_now(&mut self) {
        if self.primary.is_none() {
            self.primary = self.best().map(|(server, _votes)| server);
        }
    }

    /// The server that more than half of the sentinels name. If there is none and all have been asked, the one that
    /// most of them name.
    fn majority(&self) -> Option<Server> {
        let (server, votes) = self.best()?;
        (self.is_complete() || 2 * votes > self.views.len()).then_some(server)
    }

    /// The server that most sentinels name, and how many do; in a tie, the one that was known before.
    fn best(&self) -> Option<(Server, usize)> {
        let named = |view: &View| match view {
            View::Primary(server) => Some(server.clone()),
            View::NotAsked | View::Silent(_) | View::Refused(_) | View::UnknownService => None,
        };
        let named_servers: Vec<Server> = self.views.iter().filter_map(named).collect();
        let votes = |server: &Server| named_servers.iter().filter(|named| *named == server).count();
        let best = named_servers
            .iter()
            .max_by_key(|server| (votes(server), Some(*server) == self.primary.as_ref()))?;
        Some((best.clone(), votes(best)))
    }

    /// True if every sentinel has been asked.
    pub(super) fn is_complete(&self) -> bool {
        !self.views.contains(&View::NotAsked)
    }

    /// Why the primary is unknown, in one sentence. Problems that an operator must fix come first.
    pub(super) fn problem(&self, service: &str) -> Error {
        let with_names = || self.names.iter().zip(&self.views);
        let refused = with_names().find_map(|(name, view)| match view {
            View::Refused(why) => Some((name, why)),
            View::NotAsked | View::Silent(_) | View::UnknownService | View::Primary(_) => None,
        });
        if let Some((name, why)) = refused {
            return Error::Address(format!("redis.url: the sentinel at {name} {why}"));
        }
        if let Some((name, _)) = with_names().find(|(_, view)| **view == View::UnknownService) {
            return Error::Address(format!(
                "redis.url: the sentinel at {name} does not know a primary named {service:?}; see sentinelServiceName"
            ));
        }
        let why = with_names().map(|(name, view)| match view {
            View::Silent(why) => format!("{name} ({why})"),
            View::NotAsked | View::Refused(_) | View::UnknownService | View::Primary(_) => {
                format!("{name} (no answer)")
            }
        });
        Error::Unreachable(format!("no sentinel answers: {}", why.collect::<Vec<_>>().join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Server {
        Server::new("h", port)
    }

    fn three() -> (Opinion, Instant) {
        (Opinion::new(&[at(1), at(2), at(3)]), Instant::now())
    }

    fn says(port: u16) -> View {
        View::Primary(at(port))
    }

    #[test]
    fn two_of_three_name_the_primary() {
        let (mut opinion, now) = three();
        opinion.note_answer(0, says(10), now);
        assert_eq!(opinion.primary(), None);
        opinion.note_answer(1, says(11), now);
        assert_eq!(opinion.primary(), None);
        opinion.note_answer(2, says(11), now);
        assert_eq!(opinion.primary(), Some(&at(11)));
    }

    #[test]
    fn one_sentinel_is_enough_if_the_others_do_not_answer() {
        let (mut opinion, now) = three();
        opinion.note_answer(2, says(10), now);
        opinion.note_answer(0, View::Silent("gone".to_owned()), now);
        assert_eq!(opinion.primary(), None);
        opinion.note_answer(1, View::Silent("gone".to_owned()), now);
        assert_eq!(opinion.primary(), Some(&at(10)));
    }

    #[test]
    fn sentinels_that_take_too_long_are_not_waited_for() {
        let (mut opinion, now) = three();
        opinion.decide_now();
        assert_eq!(opinion.primary(), None);
        opinion.note_answer(1, says(10), now);
        assert_eq!(opinion.primary(), None);
        opinion.decide_now();
        assert_eq!(opinion.primary(), Some(&at(10)));
    }

    #[test]
    fn an_announcement_counts_at_once_and_old_answers_do_not_undo_it() {
        let (mut opinion, now) = three();
        (0..3).for_each(|nth| opinion.note_answer(nth, says(10), now));
        opinion.note_announcement(1, Announcement::Primary(at(11)), now);
        assert_eq!(opinion.primary(), Some(&at(11)));
        opinion.note_answer(0, says(10), now + TRUST_ANNOUNCEMENT_FOR / 2);
        opinion.note_answer(2, says(10), now + TRUST_ANNOUNCEMENT_FOR / 2);
        assert_eq!(opinion.primary(), Some(&at(11)));
        opinion.note_answer(2, says(10), now + TRUST_ANNOUNCEMENT_FOR);
        assert_eq!(opinion.primary(), Some(&at(10)));
    }

    #[test]
    fn answers_make_up_for_a_missed_announcement() {
        let (mut opinion, now) = three();
        (0..3).for_each(|nth| opinion.note_answer(nth, says(10), now));
        opinion.note_answer(0, says(11), now);
        assert_eq!(opinion.primary(), Some(&at(10)));
        opinion.note_answer(1, says(11), now);
        assert_eq!(opinion.primary(), Some(&at(11)));
    }

    #[test]
    fn a_failover_is_awaited_until_it_is_done_aborted_or_late() {
        let (mut opinion, now) = three();
        assert_eq!(opinion.changing_until(now), None);
        for end in [Announcement::Primary(at(11)), Announcement::Aborted] {
            opinion.note_announcement(0, Announcement::Changing, now);
            assert_eq!(opinion.changing_until(now), Some(now + CHANGE_TIMEOUT));
            opinion.note_announcement(0, end, now);
            assert_eq!(opinion.changing_until(now), None);
        }
        opinion.note_announcement(0, Announcement::Changing, now);
        assert_eq!(opinion.changing_until(now + CHANGE_TIMEOUT), None);
    }

    #[test]
    fn each_problem_is_one_clear_sentence() {
        let (mut opinion, now) = three();
        let problem = |opinion: &Opinion| opinion.problem("main").to_string();
        opinion.note_answer(0, View::Silent("Connection refused".to_owned()), now);
        assert_eq!(
            problem(&opinion),
            "no sentinel answers: h:1 (Connection refused), h:2 (no answer), h:3 (no answer)"
        );
        opinion.note_answer(1, View::UnknownService, now);
        assert_eq!(
            problem(&opinion),
            r#"redis.url: the sentinel at h:2 does not know a primary named "main"; see sentinelServiceName"#
        );
        opinion.note_answer(2, View::Refused("rejects the login".to_owned()), now);
        assert_eq!(problem(&opinion), "redis.url: the sentinel at h:3 rejects the login");
    }
}
