//! Hides the values of named fields in texts that nobody has parsed, such as errors, as far as a text shows what belongs to a name.

use std::borrow::Cow;
use std::ops::Range;

/// What replaces a value.
const HIDDEN: &str = "***";

/// What begins credentials of HTTP, whose second word is the secret.
const SCHEMES: [&str; 4] = ["basic", "bearer", "digest", "token"];

/// The most bytes of the rest of a pointer. The check of a schema cuts it to fewer.
const POINTER_BYTES: usize = 400;

/// What Python and Rust write before the quotes of a text.
const LITERALS: [&str; 5] = ["b", "u", "r", "br", "rb"];

/// Hides what follows one of these names, which are in lower case: `name=value`, `name: value`, `"name":"value"`,
/// `name => 'value'`, `--name value`, also in JSON within JSON. The name must be a whole word, in any case. Without quotes or brackets,
/// a value after `:` reaches to the next `,`, `;`, quote, closing bracket or line end, and any other to the next space, too.
/// Of what is wrong with a payload at `/name/…`, nothing is shown.
///
/// A value that stands elsewhere, such as `invalid card 4711`, or whose name is encoded or split, is not recognized.
#[doc(hidden)]
pub fn mask_text<'a>(names: &[String], text: &'a str) -> Cow<'a, str> {
    if names.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut copied) = (String::new(), 0);
    for word in words(text) {
        let Some(name) = name_at(names, text, &word).filter(|_| word.start >= copied) else { continue };
        let value = problem_after(text, &name)
            .or_else(|| value_after(text, name.end, text[word.clone()].starts_with("--")));
        if let Some(value) = value {
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

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// Where the name is that begins with this word. One of several words, such as `cust.no`, comes before one of its words.
fn name_at(names: &[String], text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let first = text[word.clone()].trim_start_matches('-');
    let start = word.end - first.len();
    let is_split = |name: &&String| !name.chars().all(is_of_word);
    let long = names.iter().filter(is_split).filter_map(|name| length_of(name, &text[start..])).max();
    let length = long.or_else(|| names.contains(&first.to_lowercase()).then_some(first.len()))?;
    Some(start..start + length)
}

/// The length of this name at the beginning of a text, in any case; `None` if it is not there as whole words.
fn length_of(name: &str, text: &str) -> Option<usize> {
    let mut rest = name.trim_start_matches(|c| !is_of_word(c));
    for (at, c) in text.char_indices() {
        if rest.is_empty() {
            return (at > 0 && !is_of_word(c)).then_some(at);
        }
        for lower in c.to_lowercase() {
            rest = rest.strip_prefix(lower)?;
        }
    }
    (rest.is_empty() && !text.is_empty()).then_some(text.len())
}

/// Where the words of a text are: what names consist of.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text[from..].find(is_of_word)?;
        let end = text[start..].find(|c| !is_of_word(c)).map_or(text.len(), |length| start + length);
        from = end;
        Some(start..end)
    })
}

/// Where it is said what is wrong with the part of a payload to which this name leads, as the check of its schema words it:
/// `/card/number: 4711 is not of type "string"; /to: …`. Nothing else says where in it the value is.
fn problem_after(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    let after = &text[name.end..];
    if !text[..name.start].ends_with('/') || !(after.starts_with('/') || after.starts_with(": ")) {
        return None;
    }
    let mut pairs = after.as_bytes().windows(2).take(POINTER_BYTES).take_while(|two| two[0] != b'\n');
    let pointer = pairs.position(|two| two == b": ")? + 2;
    let problem = &after[pointer..];
    let (mut in_quotes, mut is_escaped) = (false, false);
    let end = problem.find(|c: char| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = in_quotes,
            '"' => in_quotes = !in_quotes,
            ';' | '\n' | '\r' => return !in_quotes,
            _ => {}
        }
        false
    });
    let from = name.end + pointer;
    (!problem.is_empty()).then(|| from..from + end.unwrap_or(problem.len()))
}

/// Where the value is that follows a name; `None` if none does.
fn value_after(text: &str, name_end: usize, is_flag: bool) -> Option<Range<usize>> {
    let after = &text[name_end..];
    let after = &after[quote(after).len()..];
    let separated = after.trim_start();
    let separator =
        ["=>", "===", "==", "=", ":"].into_iter().find(|separator| separated.starts_with(separator));
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

/// Returns true if this quote, with the backslashes before it, closes a text that began with `open`. Each level of JSON within JSON
/// doubles the backslashes of a text, and writes one more before each of its quotes.
fn closes(mark: &str, open: &str) -> bool {
    let escapes = mark.len() - 1;
    mark.ends_with(&open[open.len() - 1..]) && escapes % (2 * open.len()) == open.len() - 1
}

/// The length of what stands before the closing quote, or of all that is left. A quote that is doubled closes nothing, as in SQL.
fn quoted(text: &str, open: &str) -> usize {
    let sign = &open[open.len() - 1..];
    let mut at = 0;
    while let Some(found) = text[at..].find(sign) {
        let end = at + found + 1;
        let before = text[..end - 1].trim_end_matches('\\').len();
        if closes(&text[before..end], open) {
            if open.len() > 1 || !text[end..].starts_with(sign) {
                return end - open.len();
            }
            at = end + 1;
        } else {
            at = end;
        }
    }
    text.len()
}

/// The length up to the bracket that closes the first one, or of all that is left.
fn bracketed(text: &str) -> usize {
    let (mut depth, mut inside) = (0_usize, "");
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let mark = quote(&text[at..]);
        match (inside.is_empty(), mark.is_empty()) {
            (true, false) => inside = mark,
            (false, false) if closes(mark, inside) => inside = "",
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
    if let Some(end) = literal(text, length) {
        return end;
    }
    let is_scheme = SCHEMES.iter().any(|scheme| text[..length].eq_ignore_ascii_case(scheme));
    if !is_scheme || has_spaces {
        return length;
    }
    let secret = text[length..].trim_start();
    let from = text.len() - secret.len();
    from + secret.find(ends).unwrap_or(secret.len())
}

/// The length of a value whose quotes begin behind something else, which ends here: `b'…'`, `Some("…")`, `Decimal('…')`.
fn literal(text: &str, length: usize) -> Option<usize> {
    let before = text[..length].trim_end_matches('\\');
    let is_prefix = |prefix: &&str| before.eq_ignore_ascii_case(prefix);
    let open = quote(&text[before.len()..]);
    if open.is_empty() || !(before.ends_with('(') || LITERALS.iter().any(is_prefix)) {
        return None;
    }
    let from = before.len() + open.len();
    Some((from + quoted(&text[from..], open) + open.len()).min(text.len()))
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
            (r#"{"card": ["C:\\", "}]", "LEAK1"], "n": 2}"#, r#"{"card": ***, "n": 2}"#),
            (r#"{\"card\": {\"a\": \"x\\\\\", \"b\": \"}\"}, \"n\": 2}"#, r#"{\"card\": ***, \"n\": 2}"#),
            ("unless card == 'LEAK1' or card === LEAK2 x", "unless card == '***' or card === *** x"),
            ("where card = 'it''s LEAK1' and n = 1", "where card = '***' and n = 1"),
            (r#"card="""LEAK1""", n=1"#, r#"card="***", n=1"#),
            ("{'card': b'LEAK1', 'n': 1}", "{'card': ***, 'n': 1}"),
            (r#"card: Some("LEAK1"), n: 1"#, "card: ***), n: 1"),
            (r"card=Decimal(\'LEAK1\') n=1", "card=***) n=1"),
            (r#"{"card":"","n":1}"#, r#"{"card":"","n":1}"#),
        ] {
            assert_eq!(mask_text(&names(), text), shown);
        }
    }

    #[test]
    fn a_name_may_have_other_characters_than_words() {
        let names = ["cust.no", "card number", "$pin"].map(str::to_owned);
        for (text, shown) in [
            (r#"{"Cust.No":"4711","n":1}"#, r#"{"Cust.No":"***","n":1}"#),
            ("card number=4711 x", "card number=*** x"),
            ("$pin=4711", "$pin=***"),
            ("run --cust.no 4711", "run --cust.no ***"),
            ("cust.not=4711 cust.n=4711", "cust.not=4711 cust.n=4711"),
        ] {
            assert_eq!(mask_text(&names, text), shown);
        }
    }

    #[test]
    fn of_what_is_wrong_with_a_payload_no_value_at_a_hidden_place_is_shown() {
        for (text, shown) in [
            (
                r#"/card/number: 471100 is not of type "string"; /card/0: "a;\"b" is too long; /to: 9 is wrong"#,
                "/card/number: ***; /card/0: ***; /to: 9 is wrong",
            ),
            (
                r#"/items/0/card: false schema does not allow "4711"; and more"#,
                "/items/0/card: ***; and more",
            ),
            ("/card/a b: c: 4711 is less than 5", "/card/a b: ***"),
            ("POST /token/refresh failed", "POST /token/refresh failed"),
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
