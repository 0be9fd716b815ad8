//! Fingerprints of errors: the same for jobs that died of the same cause, whatever numbers, names and times their errors
//! contain.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::DeadReason;

/// What differs from one error to the next stands as this in all of them.
const PLACEHOLDER: &str = "#";

/// What follows in a longer error does not count.
const MOST_CHARACTERS: usize = 4096;

/// A shorter word is not taken for an identifier, except for its digits.
const LONG_WORD: usize = 16;

/// What differs from one error to the next. At each place, the first alternative that fits is taken.
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    let alternatives = [
        // Web and other addresses, and e-mail addresses.
        r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>`]+"#,
        r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)*",
        // Quoted texts. An apostrophe inside a word is no quote.
        r#""[^"\n]*"|`[^`\n]*`|“[^”\n]*”|«[^»\n]*»|\B'[^'\n]*'\B"#,
        // UUIDs.
        r"\b[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}\b",
        // Dates and times.
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.,]+(?: ?Z\b| ?[+-][0-9]{2}:?[0-9]{2}\b| UTC\b| GMT\b)?)?",
        r"\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?(?:[0-9]{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* +[0-9]{1,2})(?:,? [0-9]{4})?(?: [0-9:.]+)?(?: (?:[+-][0-9]{4}|UTC|GMT)\b)?(?: [0-9]{4}\b)?",
        // Addresses of IPv6, also with `::`.
        r"\b[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:%\w+)?",
        // Numbers, also of several parts: 1.5e-3, 10.0.0.1, 12:30.
        r"\b0x[0-9A-Fa-f]+\b|\b[0-9]+(?:[.,:][0-9]+)*(?:[eE][+-]?[0-9]+)?\b",
    ];
    // What is left are words with digits in them.
    let pattern = format!(
        r"(?:{})|(?P<word>[0-9A-Za-z]*[0-9][0-9A-Za-z]*|\b[A-Fa-f]{{{LONG_WORD},}}\b)",
        alternatives.join("|")
    );
    Regex::new(&pattern).expect("the pattern is valid, as a test shows")
});

/// Returns a short name for an error: 16 hexadecimal digits, the same for equal types, reasons and errors whose variable
/// parts differ.
pub fn fingerprint(job_type: &str, reason: DeadReason, error: &str) -> String {
    const BETWEEN: &str = "\n";
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let error = error.char_indices().nth(MOST_CHARACTERS).map_or(error, |(end, _)| &error[..end]);
    let error = constant_part(error);
    let parts = [job_type, BETWEEN, reason.as_str(), BETWEEN, &error];
    let hash = parts
        .into_iter()
        .flat_map(str::bytes)
        .fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

/// Returns an error without what differs from one job to the next: numbers, hexadecimal values, UUIDs, quoted texts, dates,
/// and addresses of mailboxes, machines and pages.
fn constant_part(error: &str) -> Cow<'_, str> {
    VARIABLE.replace_all(error, |found: &Captures<'_>| match found.name("word") {
        Some(word) => without_digits(word.as_str()),
        None => PLACEHOLDER.to_owned(),
    })
}

/// Returns a word without its digits. A long one, or one that is only hexadecimal, is an identifier as a whole.
fn without_digits(word: &str) -> String {
    const SHORTEST_HEX: usize = 6;
    let is_hex = word.len() >= SHORTEST_HEX && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex || word.len() >= LONG_WORD {
        return PLACEHOLDER.to_owned();
    }
    let mut text = String::with_capacity(word.len());
    for letter in word.chars() {
        if !letter.is_ascii_digit() {
            text.push(letter);
        } else if !text.ends_with(PLACEHOLDER) {
            text.push_str(PLACEHOLDER);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(error: &str) -> String {
        fingerprint("mail", DeadReason::Exhausted, error)
    }

    #[test]
    fn what_differs_from_job_to_job_does_not_count() {
        let same = [
            ["timeout after 30 s", "timeout after 1.5 s", "timeout after 1e-3 s"],
            ["no user ann@example.com", "no user bob.b+x@mail.example.org", "no user c@localhost"],
            ["order 7f3a9c21 is gone", "order 0xdeadbeef is gone", "order 12 is gone"],
            [
                "id 550e8400-e29b-41d4-a716-446655440000",
                "id 01ARZ3NDEKTSV4RRFFQ69G5FAV",
                "id 507f1f77bcf86cd799439011",
            ],
            ["connect to 10.0.0.1:6379", "connect to fe80::1%eth0", "connect to 2001:db8:0:0:0:0:2:1"],
            [
                "GET https://a.example/b?c=1 failed",
                "GET http://[::1]:80/ failed",
                "GET s3://bucket/key failed",
            ],
            ["no key \"a b\" here", "no key 'ann' here", "no key `x` here"],
            ["since 2026-11-23T10:00:00.5Z", "since 2026-11-23 10:00:00+01:00", "since 2026-11-23"],
            ["at Mon, 23 Nov 2026 10:00:00 GMT", "at 3 June 2026", "at Tue Nov  3 10:00:00 2026"],
            ["host db1 is down", "host db42 is down", "host db007 is down"],
        ];
        for errors in same {
            let [a, b, c] = errors.map(constant_part);
            assert_eq!((&a, &b), (&b, &c), "{errors:?}");
        }
    }

    #[test]
    fn what_names_the_cause_counts() {
        let all = [
            "it isn't there, and it wasn't",
            "it is there, and it was",
            "std::io::Error: broken pipe",
            "std::io::Error: decade facade",
            "connection refused",
            "connection reset",
        ];
        for (nth, error) in all.iter().enumerate() {
            assert_eq!(constant_part(error), *error);
            for other in &all[nth + 1..] {
                assert_ne!(of(error), of(other));
            }
        }
        assert_ne!(of("x"), fingerprint("mai", DeadReason::Exhausted, "lx"));
        assert_ne!(of("x"), fingerprint("mail", DeadReason::Fatal, "x"));
        // It must not change from version to version without notice.
        assert_eq!(fingerprint("test", DeadReason::Fatal, "no such\taccount"), "0b5ff10951f305e7");
    }

    proptest! {
        #[test]
        fn any_error_has_a_fingerprint_without_its_digits(error in any::<String>()) {
            let constant = constant_part(&error).into_owned();
            prop_assert!(!constant.bytes().any(|byte| byte.is_ascii_digit()), "{}", constant);
            prop_assert_eq!(of(&error).len(), 16);
        }

        #[test]
        fn plain_words_stay(error in "[g-z]{1,12}( [g-z]{1,12}){0,10}") {
            prop_assert_eq!(constant_part(&error), error.as_str());
        }

        #[test]
        fn numbers_names_and_identifiers_do_not_count(
            numbers in any::<[u64; 2]>(), words in prop::array::uniform2("[a-z]{1,20}"), ids in any::<[u128; 2]>(),
        ) {
            let error = |nth: usize| {
                let (number, word, id) = (numbers[nth], &words[nth], ids[nth]);
                format!("{number} of '{word}' for {word}@example.com at {id:032x} refused: see http://{word}/{number}")
            };
            prop_assert_eq!(of(&error(0)), of(&error(1)));
        }
    }
}
