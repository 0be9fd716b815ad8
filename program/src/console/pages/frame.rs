//! What surrounds every page: navigation, search box, preferences, message. A handler takes it as an argument, and gives it
//! the content of its page.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{Html as HtmlBody, IntoResponse, Response};
use streamfleet::job::{QueueName, Timestamp};
pub(super) use streamfleet_engine::admin::grouped;

use super::assets;
use super::cookie;
use super::language::Language;
use super::message::Message;
use super::section::Section;
use super::theme::Theme;
use crate::console::access::{Csrf, HasSession, Mask, Person, Role, without_values};
use crate::console::link::Link;
use crate::console::site::Site;
use crate::times::{rfc3339, short};

/// The request header of the script that refreshes parts of a page.
const PART: &str = "x-part";

/// What surrounds a page.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) language: Language,
    pub(super) theme: Theme,
    /// The address of the page.
    pub(super) here: String,
    /// What the last action led to.
    pub(super) message: Option<Message>,
    pub(super) csrf: String,
    /// Whether there is something to log out of.
    pub(super) has_session: bool,
    person: Option<Person>,
    /// What nobody sees.
    mask: Mask,
    is_part: bool,
}

/// Text that is HTML already: only templates make it.
struct Html(String);

impl fmt::Display for Html {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Html {}

/// The whole page.
#[derive(Template)]
#[template(path = "layout.html")]
struct Layout<'a> {
    frame: &'a Frame,
    title: &'a str,
    section: Option<Section>,
    sections: Vec<Section>,
    style: &'static str,
    script: &'static str,
    main: Html,
}

impl Frame {
    /// Reads what a request says.
    pub(super) fn of(parts: &Parts) -> Self {
        let extensions = &parts.extensions;
        let token = extensions.get::<Csrf>().cloned().unwrap_or_default();
        let mut frame = Self::bare(&parts.headers, &parts.uri);
        frame.person = extensions.get::<Person>().cloned();
        frame.csrf = token.0;
        frame.has_session = extensions.get::<HasSession>().is_some();
        frame
    }

    /// The frame of a page for somebody unknown.
    pub(super) fn bare(headers: &HeaderMap, uri: &Uri) -> Self {
        let header = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let language = cookie::get(headers, cookie::LANGUAGE).and_then(Language::of_tag);
        Self {
            language: language
                .unwrap_or_else(|| Language::accepted(header(header::ACCEPT_LANGUAGE).unwrap_or_default())),
            theme: cookie::get(headers, cookie::THEME).and_then(Theme::of_name).unwrap_or_default(),
            here: uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
            message: cookie::get(headers, cookie::MESSAGE).and_then(Message::read),
            csrf: String::new(),
            has_session: false,
            person: None,
            mask: Mask::default(),
            is_part: headers.contains_key(PART),
        }
    }

    /// The answer with this page. `section` is where the navigation is.
    pub(super) fn page(&self, title: &str, section: Option<Section>, main: &impl Template) -> Response {
        match self.html(title, section, main) {
            Ok(html) => self.answer(html),
            Err(error) => {
                tracing::error!(%error, "a page could not be rendered");
                axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    fn html(&self, title: &str, section: Option<Section>, main: &impl Template) -> askama::Result<String> {
        let main = Html(main.render()?);
        if self.is_part {
            return Ok(main.0);
        }
        let sections = Section::ALL.into_iter().filter(|section| self.sees(*section)).collect();
        let (style, script) = (assets::style(), assets::script());
        Layout { frame: self, title, section, sections, style, script, main }.render()
    }

    fn answer(&self, html: String) -> Response {
        let mut response = HtmlBody(html).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Language, Cookie, X-Part"));
        if self.message.is_some() && !self.is_part {
            headers.append(header::SET_COOKIE, Message::spent());
        }
        response
    }

    /// A text of the language.
    pub(super) fn t(&self, key: &str) -> &'static str {
        self.language.text(key)
    }

    /// A text with values.
    pub(super) fn fill(&self, key: &str, values: &[(&str, &str)]) -> String {
        self.language.fill(key, values)
    }

    /// A text with a number.
    pub(super) fn number_of(&self, key: &str, count: u64) -> String {
        self.language.number_of(key, count, &grouped(count))
    }

    /// How far a time is from now, in words.
    pub(super) fn distance(&self, time: Timestamp, now: Timestamp) -> String {
        if time > now {
            return self.fill("time.in", &[("time", &short(time.since(now)))]);
        }
        self.fill("time.ago", &[("time", &short(now.since(time)))])
    }

    /// Who looks at the page; empty if nobody knows.
    pub(super) fn person_name(&self) -> &str {
        self.person.as_ref().map_or("", Person::name)
    }

    /// Whether they may do this on a queue.
    pub(super) fn may(&self, role: Role, queue: &QueueName) -> bool {
        self.person.as_ref().is_some_and(|person| person.may(role, queue))
    }

    /// Whether they may do this where an incident is: on its queue, or on every queue if it is about none.
    pub(super) fn may_about(&self, role: Role, queue: Option<&QueueName>) -> bool {
        self.person.as_ref().is_some_and(|person| person.check_about(role, queue).is_ok())
    }

    /// Whether they may see payloads.
    pub(super) fn sees_payloads(&self) -> bool {
        self.person.as_ref().is_some_and(Person::sees_payloads)
    }

    /// A text of a producer or a handler, such as an error, as far as they may see it.
    pub(super) fn said(&self, text: &str) -> String {
        if self.sees_payloads() { self.mask.text(text).into_owned() } else { String::new() }
    }

    /// A text for everybody, such as the reason of an action, without masked values: a person may have copied one.
    pub(super) fn written<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.mask.text(text)
    }

    /// The value of a field of a job for everybody, without masked values.
    pub(super) fn field<'a>(&self, name: &str, value: &'a str) -> Cow<'a, str> {
        self.mask.field(name, value)
    }

    /// The name of a gate, a filter, or what an action was about. It may have values of jobs.
    pub(super) fn about<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.sees_payloads() { self.mask.about(text) } else { without_values(text) }
    }

    fn sees(&self, section: Section) -> bool {
        self.person.as_ref().is_some_and(|person| person.role(None) >= Some(section.role()))
    }
}

impl FromRequestParts<Site> for Frame {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Infallible> {
        Ok(Self { mask: site.mask().clone(), ..Self::of(parts) })
    }
}

/// The answer that leads to another page, which shows the message.
pub(super) fn lead_to(link: &Link, message: &Message) -> Response {
    let mut response = axum::response::Redirect::to(link.as_str()).into_response();
    response.headers_mut().append(header::SET_COOKIE, message.header());
    response
}

/// A number of bytes: `1.2 MiB`.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let (mut tenths, mut unit) = (u128::from(number) * 10 / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths / 1024, unit + 1);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A time in UTC, as people read it: `2026-12-01 10:00:00`.
pub(super) fn utc(time: Timestamp) -> String {
    let text = rfc3339(time);
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// A frame for tests.
#[cfg(test)]
pub(super) fn tests_frame() -> Frame {
    Frame::bare(&HeaderMap::new(), &Uri::from_static("/"))
}

#[cfg(test)]
impl Frame {
    /// A frame for tests, of somebody with these rights.
    pub(super) fn of_person(name: &str, grants: crate::console::access::Grants) -> Self {
        Self { person: Some(Person::new(name, grants)), ..tests_frame() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::access::Grants;

    #[test]
    fn the_value_of_a_gate_is_for_those_who_see_payloads() {
        let gate = "key:h.email=ann@example.com";
        assert_eq!(tests_frame().about(gate), "key:h.email=***");
        let grants = Grants { payloads: true, ..Grants::default() };
        assert_eq!(Frame::of_person("ann", grants).about(gate), gate);
    }

    #[test]
    fn numbers_and_sizes_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 1023, 1024, 1536, 5 << 20, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "16777215.9 TiB"]
        );
        assert_eq!(utc(Timestamp::from_ms(1_796_119_200_007).unwrap()), "2026-12-01 10:00:00");
    }
}
