//! Who gives a command, and why: for the audit of the queue.

use rustix::{process, system};
use streamfleet_engine::admin::Noted;
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
    fn an_actor_is_the_person_who_is_named_or_else_the_user_of_the_machine() {
        let args = ActorArgs { by: Some("ann".to_owned()), reason: Some("it is down".to_owned()) };
        assert_eq!(args.actor(), Actor::new("ann", "it is down"));
        for name in [None, Some(" ".to_owned())] {
            let actor = ActorArgs { by: name, reason: None }.actor();
            assert!(actor.name().len() > 1 && actor.name().contains('@'), "{actor:?}");
        }
    }
}
