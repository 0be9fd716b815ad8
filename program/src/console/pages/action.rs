//! What an action led to, and its note in the audit.

use streamfleet::Queue;
use streamfleet_engine::admin::Action;

use super::frame::Frame;
use super::message::Message;

/// What an action led to, for the next page.
pub(super) struct Done {
    text: String,
    is_good: bool,
}

impl Done {
    /// It was done.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_good: true }
    }

    /// It was not done, or not completely.
    pub(super) fn not(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_good: false }
    }

    /// Says that the audit does not have it, if that is so.
    pub(super) fn unnoted(mut self, frame: &Frame, why: Option<String>) -> Self {
        if let Some(why) = why {
            self.text.push('\n');
            self.text.push_str(&frame.fill("action.unnoted", &[("why", &why)]));
            self.is_good = false;
        }
        self
    }

    pub(super) fn message(self) -> Message {
        if self.is_good { Message::good(self.text) } else { Message::bad(self.text) }
    }
}

/// Notes an action. If that fails, the action goes on all the same, and this returns why: a full Redis must not keep anybody
/// from cleaning it up.
pub(super) async fn noted(queue: &Queue, action: &Action) -> Option<String> {
    let error = queue.audit().note(action).await.err()?;
    tracing::warn!(%error, action = action.what.as_str(), "an action was not noted in the audit");
    Some(error.to_string())
}
