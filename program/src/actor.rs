//! Who gives a command, and why: for the audit of the queue.

use rustix::{process, system};
use streamfleet::Queue;
use streamfleet_engine::admin::{Action, Noted};

use super::output;

/// The arguments of commands that the audit notes.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct ActorArgs {
    /// Who does this, for the audit. Default: the user of this machine, such as ann@ops-1.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Why it is done, for the audit.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

impl ActorArgs {
    /// The same, of a command with other arguments for it.
    pub(crate) fn of(name: Option<String>, why: String) -> Self {
        Self { name, why: Some(why) }
    }

    /// Describes what this person is about to do.
    pub(crate) fn action(&self, what: &str) -> Action {
        let who = self.name.clone().filter(|name| !name.trim().is_empty()).unwrap_or_else(user);
        action(&who, what, self.why.as_deref().unwrap_or_default())
    }
}

/// Describes what this person is about to do, and why.
pub(crate) fn action(who: &str, what: &str, why: &str) -> Action {
    Action::new(what, plain(who)).why(plain(why))
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

/// A text without control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_names_the_person_or_else_the_user_of_the_machine() {
        let args = ActorArgs { name: Some("ann\n".to_owned()), why: Some("a\u{1b}b".to_owned()) };
        let action = args.action("dead drop");
        assert_eq!(
            (action.who.as_str(), action.why.as_str(), action.what.as_str()),
            ("ann ", "a b", "dead drop")
        );
        for name in [None, Some(" ".to_owned())] {
            let who = ActorArgs { name, why: None }.action("x").who;
            assert!(who.len() > 1 && who.contains('@'), "{who}");
        }
    }
}
