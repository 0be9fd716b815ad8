//! Who does something, and why.

use streamfleet_engine::admin::Action;

use super::Operation;

/// The person or program that does something, and why: for the audit, and for those who look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    name: String,
    reason: String,
}

impl Actor {
    /// An actor with a reason, which may be empty. Control characters become spaces.
    pub fn new(name: &str, reason: &str) -> Self {
        Self { name: plain(name), reason: plain(reason) }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why it is done; may be empty.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Describes that they do this, for the audit.
    pub fn action(&self, operation: &Operation) -> Action {
        Action::new(operation.name, &*self.name).why(&*self.reason)
    }
}

/// A text without control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_has_no_control_characters() {
        let action = Actor::new("ann\n", "a\u{1b}b").action(&crate::PAUSE);
        let noted = (action.who.as_str(), action.why.as_str(), action.what.as_str());
        assert_eq!(noted, ("ann ", "a b", "pause"));
    }
}
