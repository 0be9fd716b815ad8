//! The cookies of the pages: preferences, and the message for the next page. None of them says who somebody is.

use axum::http::{HeaderMap, HeaderValue, header};

/// The cookie of the language.
pub(super) const LANGUAGE: &str = "streamfleet_language";

/// The cookie of the theme.
pub(super) const THEME: &str = "streamfleet_theme";

/// The cookie of the message for the next page.
pub(super) const MESSAGE: &str = "streamfleet_message";

/// How long a browser keeps a preference, in seconds: a year.
pub(super) const YEAR: u32 = 365 * 24 * 3600;

/// Returns the value of a cookie.
pub(super) fn get<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Returns the header that sets a cookie for this many seconds; 0 deletes it. The value must have only letters, digits and `-_`.
pub(super) fn set(name: &str, value: &str, seconds: u32) -> HeaderValue {
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax");
    HeaderValue::from_str(&text).expect("names and values of cookies are plain ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; streamfleet_theme=dark;b=2"));
        headers.append(header::COOKIE, HeaderValue::from_static("c=3"));
        assert_eq!(
            (get(&headers, THEME), get(&headers, "c"), get(&headers, "d")),
            (Some("dark"), Some("3"), None)
        );
    }
}
