//! The line of what a program wrote that says most: that of its exception.

/// How traces of Java name the exception behind another one.
const CAUSED: &str = "Caused by: ";

/// How PHP and Node name an exception that nobody caught.
const UNCAUGHT: &str = "Uncaught ";

/// How a trace of Python begins.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Returns the line that says most of what a program wrote: that of the exception in a trace of Python, Java, Node, PHP, Rust or
/// Go, and otherwise the last line that is not empty. It is a part of the text, which may be empty.
pub fn telling_line(text: &str) -> &str {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let caused = lines.iter().rev().find_map(|line| line.trim_start().strip_prefix(CAUSED));
    let found = caused.or_else(|| of_python(&lines)).or_else(|| above_frames(&lines));
    let found = found.or_else(|| of_php(&lines)).or_else(|| of_panic(&lines));
    found.or_else(|| lines.last().copied()).unwrap_or_default().trim()
}

fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// The line that ends the last trace of Python.
fn of_python<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let begin = lines.iter().rposition(|line| line.ends_with(TRACEBACK))?;
    lines[begin + 1..].iter().copied().find(|line| !is_indented(line))
}

/// The line above the first frame of Java or Node: `at main (app.js:3:9)`.
fn above_frames<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let frame = lines.iter().position(|line| is_indented(line) && line.trim_start().starts_with("at "))?;
    let line = lines[..frame].iter().rev().copied().find(|line| !is_indented(line))?;
    // Java names the thread: `Exception in thread "main" java.lang.IllegalStateException: no`.
    let named = line.strip_prefix("Exception in thread \"").and_then(|rest| rest.split_once("\" "));
    Some(named.map_or(line, |(_, exception)| exception))
}

fn of_php<'a>(lines: &[&'a str]) -> Option<&'a str> {
    lines.iter().find_map(|line| line.split_once(UNCAUGHT)).map(|(_, exception)| exception)
}

/// The message of a panic: Rust has it in the line after the place.
fn of_panic<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let at = lines.iter().position(|line| line.starts_with("panic: ") || line.contains("' panicked at "))?;
    let has_place_only = lines[at].ends_with(':');
    lines.get(if has_place_only { at + 1 } else { at }).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_line_of_an_exception_says_most() {
        for (text, line) in [
            (
                "warming up\nTraceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'id'\nbye",
                "KeyError: 'id'",
            ),
            (
                "Traceback (most recent call last):\n  a\nKeyError: 1\n\nDuring handling of the above exception, \
                 another exception occurred:\n\nTraceback (most recent call last):\n  b\nmail.NotSent: no",
                "mail.NotSent: no",
            ),
            (
                "Exception in thread \"main\" java.lang.IllegalStateException: no\n\tat a.B.main(B.java:3)",
                "java.lang.IllegalStateException: no",
            ),
            (
                "a.Failed: no\n\tat a.B.c(B.java:3)\nCaused by: java.io.IOException: full\n\tat d\n\t... 3 more",
                "java.io.IOException: full",
            ),
            (
                "/app/a.js:3\n    throw new Error('x')\n    ^\n\nError: x\n    at main (/app/a.js:3:9)",
                "Error: x",
            ),
            (
                "PHP Fatal error:  Uncaught RuntimeException: no in /app/a.php:3\nStack trace:\n#0 {main}\n  thrown in x",
                "RuntimeException: no in /app/a.php:3",
            ),
            (
                "thread 'main' panicked at src/main.rs:2:5:\nindex 3 is out of range\nnote: run with",
                "index 3 is out of range",
            ),
            ("panic: no\n\ngoroutine 1 [running]:", "panic: no"),
            ("reading\nDB_HOST is not set\n\n", "DB_HOST is not set"),
            (" \n", ""),
            ("", ""),
        ] {
            assert_eq!(telling_line(text), line, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_line_is_one_line_of_the_text(text in "[ \tA-Za-z:'\n]{0,60}") {
            let line = telling_line(&text);
            prop_assert!(text.contains(line) && !line.contains('\n'));
            prop_assert_eq!(line.is_empty(), text.trim().is_empty());
        }
    }
}
