//! Asking a person before something happens that cannot be undone.

use std::io::{self, IsTerminal as _, Write as _};

use super::{Context, Wrong};

/// Returns true if somebody can be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Refuses to go on without asking if nobody can be asked.
///
/// # Errors
///
/// [`Wrong`] if it was not confirmed in advance, and standard input is not a terminal.
pub(crate) fn must_be_possible(is_confirmed: bool) -> Result<(), Wrong> {
    if is_confirmed || can_ask() {
        return Ok(());
    }
    Err(Wrong("nobody can confirm this: add --yes if stdin is not a terminal".to_owned()))
}

/// Asks whether to go on with what is probably a mistake.
///
/// # Errors
///
/// [`Wrong`] if nobody can be asked. Another error if somebody does not agree.
pub(crate) fn doubt(doubt: &str) -> anyhow::Result<()> {
    if !can_ask() {
        return Err(Wrong(format!("{doubt}: add --yes if that is meant")).into());
    }
    if yes(&format!("{doubt}. Proceed?"))? { Ok(()) } else { Err(cancelled()) }
}

/// Asks whether to go on.
pub(crate) fn yes(question: &str) -> anyhow::Result<bool> {
    Ok(is_yes(&answer(&format!("{question} [y/N] "))?))
}

/// Asks a question on stderr, and returns the line that was typed.
pub(crate) fn answer(question: &str) -> anyhow::Result<String> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Asks a question in a command that signals stop gracefully. `None` if one came instead of an answer.
pub(crate) async fn answer_unless_stopped(
    question: String,
    context: &Context,
) -> anyhow::Result<Option<String>> {
    // Nothing interrupts the read. The process ends without it.
    let asking = tokio::task::spawn_blocking(move || answer(&question));
    tokio::select! {
        biased;
        () = context.shutdown.requested() => Ok(None),
        line = asking => Ok(Some(line??)),
    }
}

/// Asks whether to go on, in such a command.
///
/// # Errors
///
/// An error if somebody does not agree, or a signal comes.
pub(crate) async fn proceed(question: &str, context: &Context) -> anyhow::Result<()> {
    let answer = answer_unless_stopped(format!("{question} [y/N] "), context).await?;
    if answer.as_deref().is_some_and(is_yes) { Ok(()) } else { Err(cancelled()) }
}

/// The error of a command that nobody confirmed.
pub(crate) fn cancelled() -> anyhow::Error {
    anyhow::anyhow!("cancelled: nothing was changed")
}

/// Makes sure that somebody means this queue: its name was given, or is typed now.
///
/// # Errors
///
/// [`Wrong`] if another name was given, or nobody can be asked. Another error if another name is typed, or a signal comes.
pub(crate) async fn queue_name(name: &str, given: Option<&str>, context: &Context) -> anyhow::Result<()> {
    match given {
        Some(given) if given == name => return Ok(()),
        Some(_) => return Err(Wrong(format!("--confirm must be the name of the queue: {name}")).into()),
        None if can_ask() => {}
        None => {
            let why = format!("nobody can confirm this: add --confirm {name} if stdin is not a terminal");
            return Err(Wrong(why).into());
        }
    }
    let question = "Type the name of the queue to confirm this: ".to_owned();
    let typed = answer_unless_stopped(question, context).await?;
    if typed.as_deref() == Some(name) { Ok(()) } else { Err(cancelled()) }
}

/// Returns true if a person agrees.
fn is_yes(answer: &str) -> bool {
    matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_counts() {
        assert!(["y", "Y", "yes", "YES"].into_iter().all(is_yes));
        assert!(["", "n", "no", "ye", "yes please", "mail"].into_iter().all(|answer| !is_yes(answer)));
    }
}
