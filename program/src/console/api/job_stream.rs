//! Jobs line by line, while they are looked for: what a search has found so far is never lost, and how far it is stays known.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::desk::{Held, Work};
use super::failure::failed;
use super::privacy::View;
use crate::console::access::Person;
use crate::console::problem::Problem;
use crate::console::site::Site;
use crate::jobs::{Facts, Row, Search, Walk, next_rows};

/// The most jobs of an answer, unless the request says fewer.
pub(super) const MOST: u64 = 100_000;

/// How long a search may take. Its last line says where to go on.
const LONGEST: Duration = Duration::from_secs(60);

/// How often there is a line about the progress, at least.
const EVERY: Duration = Duration::from_millis(250);

/// The media type of the answer.
const LINES: &str = "application/x-ndjson";

/// A line of the answer. It has one of these.
#[derive(Default, Serialize, utoipa::ToSchema)]
#[schema(as = JobLine)]
pub(super) struct Line {
    /// A job that matches, as in a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Row>)]
    job: Option<Value>,
    /// How far the search is.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// What went wrong. No line follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// How far the search is.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = JobProgress)]
struct Progress {
    /// How many jobs it has found.
    found: u64,
    /// What to send as `after` to go on; null if it has looked at everything.
    next: Option<String>,
    #[serde(flatten)]
    facts: Facts,
}

/// A search that a client reads.
struct Reading {
    site: Site,
    person: Person,
    walk: Walk,
    /// How many jobs may still be found.
    left: u64,
    found: u64,
    until: Instant,
    _place: Held,
}

/// Whether a client wants the jobs line by line.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut names = accepted.flat_map(|value| value.split(',')).filter_map(|part| part.split(';').next());
    names.any(|name| name.trim().eq_ignore_ascii_case(LINES))
}

/// Looks for jobs, and answers with those that it finds.
///
/// # Errors
///
/// [`Problem`] if too many searches run, or Redis does not answer.
pub(super) async fn answer(site: Site, person: Person, search: &Search) -> Result<Response, Problem> {
    let place = site.desk().begin(Work::Search)?;
    let walk = search.walk(site.broker(), search.names.clone()).await.map_err(failed)?;
    let until = Instant::now() + LONGEST;
    let reading = Reading { site, person, walk, left: search.limit, found: 0, until, _place: place };
    let lines = stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        let (text, is_last) = reading.next().await;
        Some((Ok::<_, Infallible>(Bytes::from(text)), (!is_last).then_some(reading)))
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LINES));
    Ok(response)
}

impl Reading {
    /// Looks at jobs until some match or it is time to say how far the search is. Returns these lines, and whether they are the
    /// last ones.
    async fn next(&mut self) -> (Vec<u8>, bool) {
        let mut text = Vec::new();
        match self.look(&mut text).await {
            Ok(is_last) => (text, is_last),
            Err(problem) => {
                write(&mut text, &Line { problem: Some(problem), ..Line::default() });
                (text, true)
            }
        }
    }

    async fn look(&mut self, text: &mut Vec<u8>) -> Result<bool, Problem> {
        let begun = Instant::now();
        let mut is_over = false;
        while text.is_empty() && !is_over && begun.elapsed() < EVERY {
            let most = usize::try_from(self.left).unwrap_or(usize::MAX);
            let page = next_rows(&mut self.walk, most).await.map_err(failed)?;
            let rows = page.unwrap_or_default();
            let view = View::of(&self.person, &self.site);
            for row in &rows {
                write(text, &Line { job: Some(view.value(row)?), ..Line::default() });
            }
            self.found += rows.len() as u64;
            self.left = self.left.saturating_sub(rows.len() as u64);
            is_over = self.is_over();
        }
        let mut facts = self.walk.facts().await;
        facts.interrupted = is_over && self.left > 0 && self.walk.next().is_some();
        let next = self.walk.next().map(ToString::to_string);
        let progress = Some(Progress { found: self.found, next, facts });
        write(text, &Line { progress, ..Line::default() });
        Ok(is_over)
    }

    /// Whether the answer ends: nothing is left to look at, enough was found, or the time is up.
    fn is_over(&self) -> bool {
        let is_late = Instant::now() >= self.until || self.site.stopping().is_requested();
        self.walk.next().is_none() || self.left == 0 || is_late
    }
}

fn write(text: &mut Vec<u8>, line: &Line) {
    serde_json::to_writer(&mut *text, line).expect("a line has only texts for keys");
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_names_the_type_gets_lines() {
        for (accepted, is_named) in [
            ("application/x-ndjson", true),
            ("text/html, Application/X-NDJSON;q=0.9", true),
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("application/x-ndjsonp", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
            assert_eq!(is_wanted(&headers), is_named, "{accepted}");
        }
    }
}
