//! Dead letters with all their fields, as a stream of lines.

use std::error::Error;
use std::vec;

use axum::body::Bytes;
use axum::response::Response;
use futures_util::stream;
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet_engine::admin::DeadLetter;
use streamfleet_operations::dead::{self, Export, LetterFields};
use utoipa_axum::routes;

use super::letters::shown;
use super::lines::lines_of;
use super::selection::Selection;
use super::work_limits::{Held, Work};
use super::{Call, Problem, QueryParams, Routes, names, operations};

/// What ends an export before its end.
type Failure = Box<dyn Error + Send + Sync>;

/// The memory of an export besides that of a search, which has a page of letters: the largest of them as JSON.
const EXPORT_BYTES: usize = 80 << 20;

/// The most bytes of a payload that is decoded to mask something in it. A larger one is hidden as a whole.
const MAX_MASKED: usize = 256 << 10;

pub(super) fn routes() -> Routes {
    Routes::default().operation(&operations::DEAD_EXPORT, routes!(export_letters))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct AllParams {
    /// All dead letters, if there is no filter.
    all: bool,
}

/// An export that is being sent.
struct Sending {
    call: Call,
    queue: Queue,
    export: Export,
    /// What was read and not yet sent.
    letters: vec::IntoIter<DeadLetter>,
    _permit: Held,
}

/// Exports dead letters with all their fields, oldest first.
///
/// Each line has one dead letter, as it is shown alone. The letters are those that exist when the export begins. Those whose
/// payloads the filter cannot read are left out. If the export cannot be completed, the connection ends in the middle of it.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead/export", tag = "dead letters", params(AllParams, Selection),
    responses((status = 200, description = "The dead letters", body = LetterFields, content_type = "application/x-ndjson")))]
async fn export_letters(
    call: Call,
    QueryParams((wanted, selection)): QueryParams<(AllParams, Selection)>,
) -> Result<Response, Problem> {
    let queue = call.queue()?;
    let filter = selection.filter_of_query(&call)?;
    if filter.is_empty() && !wanted.all {
        return Err(Problem::field("query", "select dead letters by a filter, or set all to true"));
    }
    let permit = call.app.work_limits.begin(Work::Search)?;
    call.app.work_limits.hold(EXPORT_BYTES)?;
    names::must_have(&call.app, queue.name()).await?;
    let export = dead::export(&queue, filter).await?;
    let sending = Sending { call, queue, export, letters: Vec::new().into_iter(), _permit: permit };
    let lines = stream::try_unfold(sending, |mut sending| async move {
        let line = sending.line().await?;
        Ok::<_, Failure>(line.map(|line| (line, sending)))
    });
    Ok(lines_of(lines))
}

impl Sending {
    /// The next letter as a line of JSON; `None` after the last one.
    async fn line(&mut self) -> Result<Option<Bytes>, Failure> {
        let letter = loop {
            if let Some(letter) = self.letters.next() {
                break letter;
            }
            if self.call.app.stopping.is_requested() {
                return Err("the console stops".into());
            }
            let Some(letters) = self.export.page(&self.queue).await? else { return Ok(None) };
            self.letters = letters.into_iter();
        };
        let shown = shown(&self.call, (&letter, &self.queue), (LetterFields::of, MAX_MASKED));
        let shown = shown.map_err(|problem| problem.detail().to_owned())?;
        Ok(Some(Bytes::from(format!("{shown}\n"))))
    }
}
