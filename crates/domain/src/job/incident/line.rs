//! Texts of incidents: bounded lines that hide nothing, because people read them in chats and terminals.

use super::IncidentExample;
use crate::job::cut;

/// The most bytes of what an incident is about, besides its kind and queue.
pub const MAX_KEY_BYTES: usize = 128;

/// The most bytes of a text of an incident.
pub const MAX_TEXT_BYTES: usize = 300;

/// The most bytes of the id of a job in an incident.
const MAX_JOB_BYTES: usize = 128;

/// What marks an id of which only a part is shown.
const ALTERED: &str = " …";

impl IncidentExample {
    /// An id that contains something invisible gets a mark, with which it is the id of no job: without what it hides, it may be
    /// that of another one.
    #[doc(hidden)]
    pub fn new(job: &str, error: &str) -> Self {
        let mut shown = plain_line(job, MAX_JOB_BYTES);
        if shown != job && !shown.ends_with(ALTERED) {
            shown.push_str(ALTERED);
        }
        Self { job: shown, error: plain_line(error, MAX_TEXT_BYTES) }
    }

    /// The id, if it is that of the job; `None` if there is none, or if it is not shown as it is.
    #[doc(hidden)]
    pub fn job_id(&self) -> Option<&str> {
        // No id contains a space.
        Some(&*self.job).filter(|job| !job.is_empty() && !job.contains(' '))
    }
}

/// Returns a text as one line of at most `max` bytes. What it shows is what it contains: it has neither control characters nor
/// those that change the direction of writing or have no width.
pub fn plain_line(text: &str, max: usize) -> String {
    let is_hidden = |c: char| {
        matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
    };
    let mut line = String::new();
    for c in text.chars() {
        let is_space = c.is_whitespace() || c.is_control() || is_hidden(c);
        match (is_space, line.ends_with(' ') || line.is_empty()) {
            (false, _) => line.push(c),
            (true, false) => line.push(' '),
            (true, true) => {}
        }
        // The rest would be cut anyway.
        if line.len() > max {
            break;
        }
    }
    cut(line.trim_end().to_owned(), max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_hides_nothing() {
        assert_eq!(plain_line("a\nb\u{1b}[2J \u{202e}c\t ", 100), "a b [2J c");
        assert_eq!(plain_line("\u{200b}", 100), "");
        assert_eq!(plain_line("a\u{e0041}b", 100), "a b");
    }

    #[test]
    fn an_id_that_hides_something_is_the_id_of_no_job() {
        let example = |job: &str| IncidentExample::new(job, "");
        assert_eq!(example("pay-9").job_id(), Some("pay-9"));
        for (job, shown) in
            [("pay-9\u{200b}", "pay-9 …"), ("\u{202e}pay-9", "pay-9 …"), ("pay\u{e0041}-9", "pay -9 …")]
        {
            let example = example(job);
            assert_eq!((&*example.job, example.job_id()), (shown, None));
            assert_eq!(IncidentExample::new(&example.job, ""), example, "read from Redis");
        }
        assert_eq!(example("").job_id(), None);
    }

    proptest! {
        #[test]
        fn any_line_is_bounded_and_plain(text in any::<String>(), max in 10_usize..400) {
            let line = plain_line(&text, max);
            prop_assert!(line.len() <= max, "{}", line.len());
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}
