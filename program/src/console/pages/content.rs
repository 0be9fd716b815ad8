//! What a job got and returned, in tabs: the payload, the headers and the result. Also the commands that submit the same job.

use askama::Template;
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet::job::{Encoding, Envelope};
use streamfleet_engine::admin::Status;
use streamfleet_operations::jobs::encoding;

use super::commands;
use super::excerpt::{self, html_bytes};
use super::frame::Frame;
use super::payload::{self, Form, Shown};
use super::terms::Terms;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// What a job got and returned, in the open tab.
#[derive(Template)]
#[template(path = "content.html")]
pub(super) struct Content {
    /// Each tab: the key of its name, its address, and whether it is open.
    tabs: Vec<(&'static str, String, bool)>,
    /// Each form of the bytes, likewise.
    forms: Vec<(&'static str, String, bool)>,
    shown: Option<Shown>,
    /// What is said about it: cut, hidden, or not there.
    note: Option<String>,
    headers: Vec<(String, String)>,
    /// The names of the tabs, in the language of the page.
    frame: Frame,
}

impl askama::filters::HtmlSafe for Content {}

/// Which part is open.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Wanted {
    tab: Option<String>,
    form: Option<String>,
}

/// What a job has that is shown in tabs.
pub(super) struct Bodies<'a> {
    pub(super) fields: Option<&'a Envelope>,
    pub(super) result: Option<&'a str>,
}

/// What a job got and returned, in the tab that the address names.
///
/// # Errors
///
/// [`Problem`] if the memory to decode it is not to be had.
pub(super) fn of(
    frame: &Frame,
    site: &Site,
    here: &Link,
    bodies: &Bodies<'_>,
    wanted: &Wanted,
) -> Result<Content, Problem> {
    let tabs = [("payload", "job.payload"), ("headers", "job.headers"), ("result", "job.result")];
    let tab = wanted
        .tab
        .as_deref()
        .and_then(|tab| tabs.iter().find(|(name, _)| *name == tab))
        .unwrap_or(&tabs[0])
        .0;
    let open = |(name, key): (&'static str, &'static str)| {
        (key, here.clone().with("tab", name).to_string(), name == tab)
    };
    let mut content = Content {
        tabs: tabs.map(open).into(),
        forms: Vec::new(),
        shown: None,
        note: None,
        headers: Vec::new(),
        frame: frame.clone(),
    };
    if !frame.sees_payloads() {
        content.note = Some(frame.t("job.hidden").to_owned());
        return Ok(content);
    }
    let body: Option<(Vec<u8>, Option<Encoding>)> = match tab {
        "headers" => {
            let all = bodies.fields.map(|fields| headers(site, fields)).unwrap_or_default();
            let (shown, is_cut) = beginning(all);
            (content.headers, content.note) = (shown, is_cut.then(|| frame.t("job.cut").to_owned()));
            None
        }
        "result" => bodies.result.map(|text| {
            let bytes = payload::result(text);
            let encoding = if bytes == text.as_bytes() { Encoding::Json } else { Encoding::Raw };
            (bytes, Some(encoding))
        }),
        _ => bodies.fields.and_then(|fields| Some((fields.get(b"payload")?.to_vec(), encoding(fields)))),
    };
    let Some((bytes, encoding)) = body else {
        if content.headers.is_empty() {
            content.note = Some(frame.t("job.none").to_owned());
        }
        return Ok(content);
    };
    let form = wanted.form.as_deref().and_then(Form::of_name).unwrap_or(Form::of_encoding(encoding, &bytes));
    let link = |one: Form| here.clone().with("tab", tab).with("form", one.as_str()).to_string();
    content.forms = Form::ALL.map(|one| (one.key(), link(one), one == form)).into();
    site.desk().hold(payload::weight(&bytes))?;
    let shown = payload::shown((&bytes, encoding), form, site.mask());
    let note = match &shown {
        None => Some("job.masked"),
        Some(Shown { is_other: true, .. }) => Some("job.other_form"),
        Some(Shown { is_cut: true, .. }) => Some("job.cut"),
        Some(Shown { .. }) => None,
    };
    content.note = note.map(|key| frame.t(key).to_owned());
    content.shown = shown;
    Ok(content)
}

/// The most bytes that headers take in a page, how many one of them takes beside its name and value, and the most letters of a
/// value.
const MAX_HEADERS: usize = 32 * 1024;
const HEADER_BYTES: usize = 50;
const MAX_HEADER: usize = 1000;

/// The most bytes that the commands of a job take in a page.
const MAX_COMMANDS: usize = 20 * 1024;

/// Commands that submit the same job, if its payload is text, nothing of it is hidden, and they are not too long for a page.
pub(super) fn copies(
    frame: &Frame,
    site: &Site,
    (queue, status): (&Queue, &Status),
    fields: Option<&Envelope>,
) -> Vec<(&'static str, String)> {
    let Some(fields) = fields.filter(|_| frame.sees_payloads() && site.mask().is_empty()) else {
        return Vec::new();
    };
    let payload = std::str::from_utf8(fields.get(b"payload").unwrap_or_default());
    let Some(payload) = payload.ok().filter(|payload| payload.len() <= MAX_COMMANDS) else {
        return Vec::new();
    };
    let headers = headers(site, fields);
    let order = commands::Order {
        namespace: site.broker().namespace(),
        queue: queue.name(),
        lane: status.lane,
        job_type: &status.job_type,
        payload,
        encoding: encoding(fields).unwrap_or(Encoding::Raw),
        headers,
        terms: Terms::of(status, fields),
    };
    let commands = order.commands();
    let bytes: usize = commands.iter().map(|(_, text)| html_bytes(text)).sum();
    if bytes > MAX_COMMANDS { Vec::new() } else { commands }
}

/// The headers that a page has room for, and whether that is not all of them.
fn beginning(all: Vec<(String, String)>) -> (Vec<(String, String)>, bool) {
    let (count, mut room, mut is_cut) = (all.len(), MAX_HEADERS, false);
    let shown = all.into_iter().map_while(|(name, value)| {
        let value = {
            is_cut |= value.len() > MAX_HEADER;
            excerpt::of(value, MAX_HEADER)
        };
        room = room.checked_sub(HEADER_BYTES + html_bytes(&name) + html_bytes(&value))?;
        Some((name, value))
    });
    let shown: Vec<_> = shown.collect();
    is_cut |= shown.len() < count;
    (shown, is_cut)
}

/// The headers of a job, without what is masked.
fn headers(site: &Site, fields: &Envelope) -> Vec<(String, String)> {
    let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers =
        fields.fields().filter_map(|(name, value)| Some((owned(name.strip_prefix(b"h.")?), owned(value))));
    let hidden = |(name, value): (String, String)| {
        let value = site.mask().field(&name, &value).into_owned();
        (name, value)
    };
    headers.map(hidden).collect()
}
