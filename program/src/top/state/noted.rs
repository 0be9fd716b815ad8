//! Which notes of the audit a filter means.

use streamfleet_operations::audit::Wanted;

use crate::times::bound;

/// Reads a filter of the audit: `who=ann`, `action=dead` or `action=dead+replay`, `target=order-7`, `since=1d` and `until=1h`. Other words
/// must be in the target.
///
/// # Errors
///
/// Says which word is wrong, and why.
pub(in crate::top) fn noted(text: &str) -> Result<Wanted, String> {
    let (mut wanted, mut words) = (Wanted::default(), Vec::new());
    for word in text.split_whitespace() {
        let wrong = |why: String| format!("{word}: {why}");
        match word.split_once('=') {
            Some(("who", name)) => wanted.who = Some(name.to_owned()),
            Some(("action", name)) => wanted.action = Some(name.replace('+', " ")),
            Some(("target", name)) => words.push(name),
            Some(("since", time)) => wanted.since = Some(bound(time).map_err(wrong)?),
            Some(("until", time)) => wanted.until = Some(bound(time).map_err(wrong)?),
            Some(_) | None => words.push(word),
        }
    }
    wanted.target = Some(words.join(" ")).filter(|target| !target.is_empty());
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_the_audit_has_a_person_an_action_and_words_of_the_target() {
        let wanted = noted("who=ann action=dead+replay since=1d order-7 mail").unwrap();
        assert_eq!((wanted.who.as_deref(), wanted.action.as_deref()), (Some("ann"), Some("dead replay")));
        assert_eq!((wanted.target.as_deref(), wanted.since.is_some()), (Some("order-7 mail"), true));
        assert!(noted("since=soon").unwrap_err().starts_with("since=soon: "));
        assert_eq!(noted(" ").unwrap().target, None);
    }
}
