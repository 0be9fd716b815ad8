//! Text that is safe to print: invisible characters are escaped.

/// Makes text from elsewhere harmless for a terminal: invisible characters are escaped.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Escapes what a terminal would not show in each of several lines.
pub(super) fn harmless_lines(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

/// Escapes the invisible characters of JSON text as JSON does. They occur only inside strings.
pub(super) fn escaped(json: &str) -> String {
    if !json.chars().any(|c| c != '\n' && is_unseen(c)) {
        return json.to_owned();
    }
    let escape = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    json.chars().map(|c| if c != '\n' && is_unseen(c) { escape(c) } else { c.to_string() }).collect()
}

/// Whether a character acts on a terminal or on the text around it without being visible: control characters (C0 and C1),
/// overrides and isolates of the writing direction, line separators, and everything that has no width.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Quotes a word for a shell, if it needs quotes.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/".contains(c);
    let plain = !word.is_empty() && word.chars().all(is_plain);
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Joins names on one line.
pub(crate) fn listed<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped_and_others_stay() {
        for c in "\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200f}\u{2028}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e0041}".chars() {
            let text = format!("a{c}b");
            assert_eq!(harmless(&text), format!("a{}b", c.escape_default()));
            let json = serde_json::to_string(&text).unwrap();
            let escaped = escaped(&json);
            assert!(!escaped.chars().any(is_unseen), "{escaped}");
            assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
        for text in ["käse 好 ½ → │ ─ ╞ ✓ шум שלום سلام", ""] {
            assert_eq!(harmless(text), text);
            assert_eq!(escaped(text), text);
        }
        assert_eq!(harmless_lines("a\u{202e}\nb"), "a\\u{202e}\nb");
    }
}
