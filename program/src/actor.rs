//! Who gives a command, and why: for the audit of the queue.

use rustix::{process, system};
use streamfleet::Queue;
use streamfleet_engine::admin::{Action, Noted};
use streamfleet_operations::Actor;

use super::output;

/// The arguments of commands that the audit notes.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct ActorArgs {
    /// Who does this, for the audit. Default: the user of this machine, such as ann@ops-1.
    #[arg(long, value_name = "NAME", alias = "as")]
    by: Option<String>,
    /// Why it is done, for the audit.
    #[arg(long, value_name = "TEXT", alias = "why")]
    reason: Option<String>,
}

impl ActorArgs {
    /// The person, and the reason.
    pub(crate) fn actor(&self) -> Actor {
        let by = self.by.clone().filter(|name| !name.trim().is_empty()).unwrap_or_else(user);
        Actor::new(&by, self.reason.as_deref().unwrap_or_default())
    }

    /// Describes what this person is about to do.
    pub(crate) fn action(&self, what: &str) -> Action {
        let actor = self.actor();
        Action::new(what, actor.name()).why(actor.reason())
    }
}

/// Describes what this person is about to do, and why.
pub(crate) fn action(who: &str, what: &str, why: &str) -> Action {
    let actor = Actor::new(who, why);
    Action::new(what, actor.name()).why(actor.reason())
}

/// Notes an action. If that fails, the action goes on all the same: a full Redis must not keep anybody from cleaning it up.
pub(crate) async fn note(queue: &Queue, action: &Action) {
    if let Err(error) = queue.audit().note(action).await {
        output::print_stderr(&format!("not noted in the audit: {error}"));
    }
}

/// Returns what an action returned. If it is not noted in the audit, says so.
pub(crate) fn told<T>(noted: Noted<T>) -> T {
    if let Some(why) = &noted.unnoted {
        output::print_stderr(&format!("not noted in the audit: {why}"));
    }
    noted.value
}

/// The user of this process, and the machine.
pub(crate) fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(std::env::var_os);
    let named = named.map(|name| name.to_string_lossy().into_owned()).filter(|name| !name.is_empty());
    let user = named.unwrap_or_else(|| format!("uid {}", process::getuid().as_raw()));
    format!("{user}@{}", system::uname().nodename().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_names_the_person_or_else_the_user_of_the_machine() {
        let args = ActorArgs { by: Some("ann\n".to_owned()), reason: Some("a\u{1b}b".to_owned()) };
        let action = args.action("dead drop");
        assert_eq!(
            (action.who.as_str(), action.why.as_str(), action.what.as_str()),
            ("ann ", "a b", "dead drop")
        );
        for name in [None, Some(" ".to_owned())] {
            let who = ActorArgs { by: name, reason: None }.action("x").who;
            assert!(who.len() > 1 && who.contains('@'), "{who}");
        }
    }
}
