//! The combined opinion of the sentinels. Pure: time is an argument.

use std::time::{Duration, Instant};

use fred::types::config::Server;

use super::announcement::Announcement;
use crate::broker::client::error::Error;

/// The last answer of one sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// It has not been asked yet.
    Unasked,
    /// It does not answer, for this reason.
    Silent(String),
    /// It answers but refuses us: a wrong password, missing rights, or not a sentinel at all.
    Refused(String),
    /// It does not watch a primary of this name.
    Ignorant,
    /// It names this server as the primary.
    Says(Server),
}

/// After an announcement, answers are ignored for this long: a sentinel that has not yet learned of the change still
/// names the old primary.
const NEWS: Duration = Duration::from_secs(4);

/// How long an announced change is waited for; it usually takes about a second.
const CHANGE: Duration = Duration::from_secs(3);

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
            views: vec![View::Unasked; sentinels.len()],
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
        self.changing.map(|since| since + CHANGE).filter(|until| *until > now)
    }

    /// Notes what one sentinel answered, or that it did not. The others overrule it, unless none of them names a
    /// primary.
    pub(super) fn answered(&mut self, sentinel: usize, view: View, now: Instant) {
        self.views[sentinel] = view;
        let fresh = self.announced.is_some_and(|at| now.saturating_duration_since(at) < NEWS);
        if !fresh && let Some(most) = self.most() {
            self.settle(most);
        }
    }

    /// Notes what one sentinel announced.
    pub(super) fn heard(&mut self, sentinel: usize, announcement: Announcement, now: Instant) {
        match announcement {
            Announcement::Changing => self.changing = Some(now),
            Announcement::Kept => self.changing = None,
            Announcement::Primary(server) => {
                self.views[sentinel] = View::Says(server.clone());
                self.announced = Some(now);
                self.changing = None;
                self.primary = Some(server);
            }
        }
    }

    fn settle(&mut self, primary: Server) {
        if self.primary.as_ref() != Some(&primary) {
            self.changing = None;
            self.primary = Some(primary);
        }
    }

    /// Decides with the answers so far, because some sentinels take too long.
    pub(super) fn make_do(&mut self) {
        if self.primary.is_none() {
            self.primary = self.best().map(|(server, _votes)| server);
        }
    }

    /// The server that more than half of the sentinels name. If there is none and all have been asked, the one that
    /// most of them name.
    fn most(&self) -> Option<Server> {
        let (server, votes) = self.best()?;
        (self.is_complete() || 2 * votes > self.views.len()).then_some(server)
    }

    /// The server that most sentinels name, and how many do; in a tie, the one that was known before.
    fn best(&self) -> Option<(Server, usize)> {
        let named = |view: &View| match view {
            View::Says(server) => Some(server.clone()),
            View::Unasked | View::Silent(_) | View::Refused(_) | View::Ignorant => None,
        };
        let said: Vec<Server> = self.views.iter().filter_map(named).collect();
        let votes = |server: &Server| said.iter().filter(|said| *said == server).count();
        let best =
            said.iter().max_by_key(|server| (votes(server), Some(*server) == self.primary.as_ref()))?;
        Some((best.clone(), votes(best)))
    }

    /// True if every sentinel has been asked.
    pub(super) fn is_complete(&self) -> bool {
        !self.views.contains(&View::Unasked)
    }

    /// Why the primary is unknown, in one sentence. Problems that an operator must fix come first.
    pub(super) fn problem(&self, service: &str) -> Error {
        let with_names = || self.names.iter().zip(&self.views);
        let refused = with_names().find_map(|(name, view)| match view {
            View::Refused(why) => Some((name, why)),
            View::Unasked | View::Silent(_) | View::Ignorant | View::Says(_) => None,
        });
        if let Some((name, why)) = refused {
            return Error::Address(format!("redis.url: the sentinel at {name} {why}"));
        }
        if let Some((name, _)) = with_names().find(|(_, view)| **view == View::Ignorant) {
            return Error::Address(format!(
                "redis.url: the sentinel at {name} does not know a primary named {service:?}; see sentinelServiceName"
            ));
        }
        let why = with_names().map(|(name, view)| match view {
            View::Silent(why) => format!("{name} ({why})"),
            View::Unasked | View::Refused(_) | View::Ignorant | View::Says(_) => {
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
        View::Says(at(port))
    }

    #[test]
    fn two_of_three_name_the_primary() {
        let (mut opinion, now) = three();
        opinion.answered(0, says(10), now);
        assert_eq!(opinion.primary(), None);
        opinion.answered(1, says(11), now);
        assert_eq!(opinion.primary(), None);
        opinion.answered(2, says(11), now);
        assert_eq!(opinion.primary(), Some(&at(11)));
    }

    #[test]
    fn one_sentinel_is_enough_if_the_others_do_not_answer() {
        let (mut opinion, now) = three();
        opinion.answered(2, says(10), now);
        opinion.answered(0, View::Silent("gone".to_owned()), now);
        assert_eq!(opinion.primary(), None);
        opinion.answered(1, View::Silent("gone".to_owned()), now);
        assert_eq!(opinion.primary(), Some(&at(10)));
    }

    #[test]
    fn sentinels_that_take_too_long_are_not_waited_for() {
        let (mut opinion, now) = three();
        opinion.make_do();
        assert_eq!(opinion.primary(), None);
        opinion.answered(1, says(10), now);
        assert_eq!(opinion.primary(), None);
        opinion.make_do();
        assert_eq!(opinion.primary(), Some(&at(10)));
    }

    #[test]
    fn an_announcement_counts_at_once_and_old_answers_do_not_undo_it() {
        let (mut opinion, now) = three();
        (0..3).for_each(|nth| opinion.answered(nth, says(10), now));
        opinion.heard(1, Announcement::Primary(at(11)), now);
        assert_eq!(opinion.primary(), Some(&at(11)));
        opinion.answered(0, says(10), now + NEWS / 2);
        opinion.answered(2, says(10), now + NEWS / 2);
        assert_eq!(opinion.primary(), Some(&at(11)));
        opinion.answered(2, says(10), now + NEWS);
        assert_eq!(opinion.primary(), Some(&at(10)));
    }

    #[test]
    fn answers_make_up_for_a_missed_announcement() {
        let (mut opinion, now) = three();
        (0..3).for_each(|nth| opinion.answered(nth, says(10), now));
        opinion.answered(0, says(11), now);
        assert_eq!(opinion.primary(), Some(&at(10)));
        opinion.answered(1, says(11), now);
        assert_eq!(opinion.primary(), Some(&at(11)));
    }

    #[test]
    fn a_failover_is_awaited_until_it_is_done_aborted_or_late() {
        let (mut opinion, now) = three();
        assert_eq!(opinion.changing_until(now), None);
        for end in [Announcement::Primary(at(11)), Announcement::Kept] {
            opinion.heard(0, Announcement::Changing, now);
            assert_eq!(opinion.changing_until(now), Some(now + CHANGE));
            opinion.heard(0, end, now);
            assert_eq!(opinion.changing_until(now), None);
        }
        opinion.heard(0, Announcement::Changing, now);
        assert_eq!(opinion.changing_until(now + CHANGE), None);
    }

    #[test]
    fn each_problem_is_one_clear_sentence() {
        let (mut opinion, now) = three();
        let problem = |opinion: &Opinion| opinion.problem("main").to_string();
        opinion.answered(0, View::Silent("Connection refused".to_owned()), now);
        assert_eq!(
            problem(&opinion),
            "no sentinel answers: h:1 (Connection refused), h:2 (no answer), h:3 (no answer)"
        );
        opinion.answered(1, View::Ignorant, now);
        assert_eq!(
            problem(&opinion),
            r#"redis.url: the sentinel at h:2 does not know a primary named "main"; see sentinelServiceName"#
        );
        opinion.answered(2, View::Refused("rejects the login".to_owned()), now);
        assert_eq!(problem(&opinion), "redis.url: the sentinel at h:3 rejects the login");
    }
}
