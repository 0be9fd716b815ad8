//! Hides the values of named fields in texts that nobody has parsed, such as errors, as far as a text shows what belongs to a name.

use std::borrow::Cow;
use std::ops::Range;

/// What replaces a value.
const HIDDEN: &str = "***";

/// What begins credentials of HTTP, whose second word is the secret.
const SCHEMES: [&str; 4] = ["basic", "bearer", "digest", "token"];

/// Hides what follows one of these names, which are in lower case: `name=value`, `name: value`, `"name":"value"`,
/// `name => 'value'`, `--name value`, also in JSON within JSON. The name must be a whole word, in any case. Without quotes or brackets,
/// a value after `:` reaches to the next `,`, `;`, quote, closing bracket or line end, and any other to the next space, too.
///
/// A value that stands elsewhere, such as `invalid card 4711`, or whose name is encoded or split, is not recognized.
#[doc(hidden)]
pub fn mask_text<'a>(names: &[String], text: &'a str) -> Cow<'a, str> {
    if names.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut copied) = (String::new(), 0);
    for word in words(text) {
        let name = text[word.clone()].trim_start_matches('-');
        if word.start < copied || !names.contains(&name.to_lowercase()) {
            continue;
        }
        let is_flag = text[word.clone()].starts_with("--");
        if let Some(value) = value_after(text, word.end, is_flag) {
            shown.push_str(&text[copied..value.start]);
            shown.push_str(HIDDEN);
            copied = value.end;
        }
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(&text[copied..]);
    Cow::Owned(shown)
}

/// Where the words of a text are: what names consist of.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text[from..].find(is_of_word)?;
        let end = text[start..].find(|c| !is_of_word(c)).map_or(text.len(), |length| start + length);
        from = end;
        Some(start..end)
    })
}

/// Where the value is that follows a name; `None` if none does.
fn value_after(text: &str, name_end: usize, is_flag: bool) -> Option<Range<usize>> {
    let after = &text[name_end..];
    let after = &after[quote(after).len()..];
    let separated = after.trim_start();
    let separator = ["=>", "=", ":"].into_iter().find(|separator| separated.starts_with(separator));
    let value = match separator {
        Some(separator) => separated[separator.len()..].trim_start(),
        None if is_flag && after.len() > separated.len() => separated,
        None => return None,
    };
    // `name::other` is a path.
    if separator == Some(":") && value.starts_with(':') {
        return None;
    }
    let from = text.len() - value.len();
    let inner = match (quote(value), value.chars().next()?) {
        ("", '{' | '[' | '(') => 0..bracketed(value),
        ("", _) => 0..plain(value, separator == Some(":")),
        (open, _) => open.len()..open.len() + quoted(&value[open.len()..], open),
    };
    (!inner.is_empty()).then(|| from + inner.start..from + inner.end)
}

/// The quote that a text begins with, with the backslashes before it, or nothing.
fn quote(text: &str) -> &str {
    let mark = text.trim_start_matches('\\');
    let escapes = text.len() - mark.len();
    if mark.starts_with(['"', '\'', '`']) { &text[..=escapes] } else { "" }
}

/// The length of what stands before the closing quote, or of all that is left.
fn quoted(text: &str, open: &str) -> usize {
    let closes = |at: usize| {
        let escapes = at - text[..at].trim_end_matches('\\').len();
        // In JSON within JSON, a further backslash escapes the quote.
        if open.len() > 1 { escapes == 0 } else { escapes.is_multiple_of(2) }
    };
    text.match_indices(open).map(|(at, _)| at).find(|at| closes(*at)).unwrap_or(text.len())
}

/// The length up to the bracket that closes the first one, or of all that is left.
fn bracketed(text: &str) -> usize {
    let (mut depth, mut inside) = (0_usize, "");
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let mark = quote(&text[at..]);
        match (inside.is_empty(), mark.is_empty()) {
            (true, false) => inside = mark,
            (false, false) if mark == inside => inside = "",
            (true, true) if matches!(c, '{' | '[' | '(') => depth += 1,
            (true, true) if matches!(c, '}' | ']' | ')') => depth = depth.saturating_sub(1),
            (_, _) => {}
        }
        // Of backslashes before no quote, each would be counted from again.
        let escapes = text[at..].len() - text[at..].trim_start_matches('\\').len();
        at += mark.len().max(escapes).max(c.len_utf8());
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a value without quotes or brackets.
fn plain(text: &str, has_spaces: bool) -> usize {
    let ends = |c: char| match c {
        '\n' | '\r' | ',' | ';' | ')' | ']' | '}' | '"' | '\'' | '`' => true,
        '&' => !has_spaces,
        c => c.is_whitespace() && !has_spaces,
    };
    let length = text.find(ends).unwrap_or(text.len());
    let is_scheme = SCHEMES.iter().any(|scheme| text[..length].eq_ignore_ascii_case(scheme));
    if !is_scheme || has_spaces {
        return length;
    }
    let secret = text[length..].trim_start();
    let from = text.len() - secret.len();
    from + secret.find(ends).unwrap_or(secret.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> Vec<String> {
        ["password", "token", "authorization", "card", "x-api-key"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_value_that_follows_its_name_is_hidden() {
        for (text, shown) in [
            ("login failed: password=hunter2 user=ann", "login failed: password=*** user=ann"),
            ("Password: hunter2, user: ann", "Password: ***, user: ann"),
            (
                r#"refused {"password":"hun\"ter2","user":"ann"}"#,
                r#"refused {"password":"***","user":"ann"}"#,
            ),
            (r#"body: "{\"password\":\"hunter2\",\"n\":1}""#, r#"body: "{\"password\":\"***\",\"n\":1}""#),
            (r#"{"card": {"number": "4711 } x", "cvc": 1}, "n": 2}"#, r#"{"card": ***, "n": 2}"#),
            ("array('token' => 'abc', 'n' => 1)", "array('token' => '***', 'n' => 1)"),
            ("GET /x?token=abc&n=1 failed", "GET /x?token=***&n=1 failed"),
            ("Authorization: Bearer abc.def; Host: x", "Authorization: ***; Host: x"),
            ("authorization=Bearer abc.def n=1", "authorization=*** n=1"),
            ("mysql --password hunter2 --user ann", "mysql --password *** --user ann"),
            ("X-Api-Key: k1", "X-Api-Key: ***"),
            (r#"{"password":"cut off here"#, r#"{"password":"***"#),
            ("card=[1, 2", "card=***"),
            ("user.password = \"a b\"", "user.password = \"***\""),
        ] {
            assert_eq!(mask_text(&names(), text), shown);
        }
    }

    #[test]
    fn what_does_not_name_a_value_stays() {
        for text in [
            "invalid card 4711",
            "Token::new failed",
            "the password is wrong",
            "passwords=2 mytoken=x card_id=7",
            "token=",
            "token: ",
            "",
        ] {
            assert_eq!(mask_text(&names(), text), text);
        }
        assert_eq!(mask_text(&[], "password=hunter2"), "password=hunter2");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in any::<String>()) {
            mask_text(&names(), &text);
        }

        #[test]
        fn any_text_of_marks_is_read(text in "[\"'`\\\\{}\\[\\]():=>, a-]{0,20}token[\"'`\\\\{}\\[\\]():=>, aß-]{0,20}") {
            mask_text(&names(), &text);
        }

        #[test]
        fn no_value_is_left(value in "[A-Z0-9]{8,20}", before in "[a-z ]{0,9}", after in "[a-z ]{0,9}", nth in 0_usize..6) {
            let form = ["token=V", "token: V", "\"token\":\"V\"", "'token' => 'V'", "--token V", "\\\"token\\\": \\\"V\\\""][nth];
            let text = format!("{before} {} {after}", form.replace('V', &value));
            prop_assert!(!mask_text(&names(), &text).contains(&value), "{text}");
        }
    }
}
