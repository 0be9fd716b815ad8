//! Reading what a place shows: what the lists of other commands read, in pages and within bounds.

mod audit;
mod dead;
mod detail;
mod gates;
mod jobs;
mod past;
mod queues;
mod tasks;
mod workers;

use futures_util::{StreamExt as _, stream};
use streamfleet::Queue;

use super::action::Desk;
use super::state::{Column, Page, Place, Row, View};

/// How many queues are read at once.
const AT_ONCE: usize = 8;

/// How many rows a page has, at most.
const MOST: usize = 500;

/// Reads a place.
///
/// # Errors
///
/// Says why it cannot be read.
pub(super) async fn read(place: Place, desk: Desk) -> Result<Page, String> {
    let page = match place.view {
        View::Queues => Box::pin(queues::read(&desk)).await,
        View::Jobs | View::Running => Box::pin(jobs::read(&place, &desk)).await,
        View::Dead => dead::read(&place, &desk).await,
        View::Workers => workers::read(&desk).await,
        View::Gates => gates::read(&place, &desk).await,
        View::Tasks => tasks::read(&place, &desk).await,
        View::Audit => audit::read(&place, &desk).await,
        View::Detail => Box::pin(detail::read(&place, &desk)).await,
    };
    let columns = columns(place.view);
    page.map(|page| Page { columns, ..page }).map_err(|error| format!("{error:#}"))
}

/// The columns of a view.
pub(super) fn columns(view: View) -> &'static [Column] {
    match view {
        View::Queues => queues::COLUMNS,
        View::Jobs | View::Running => jobs::COLUMNS,
        View::Dead => dead::COLUMNS,
        View::Workers => workers::COLUMNS,
        View::Gates => gates::COLUMNS,
        View::Tasks => tasks::COLUMNS,
        View::Audit => audit::COLUMNS,
        View::Detail => detail::COLUMNS,
    }
}

/// The queues of a place, and what to say about those that cannot be listed.
async fn queues(place: &Place, desk: &Desk) -> anyhow::Result<(Vec<Queue>, String)> {
    let (names, remark) = match (&place.queue, &desk.names[..]) {
        (Some(name), _) => (vec![name.clone()], String::new()),
        (None, []) => {
            let listed = desk.broker.queues().await?;
            (listed.found, listed.missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
        (None, names) => (names.to_vec(), String::new()),
    };
    Ok((names.into_iter().map(|name| desk.broker.queue(name)).collect(), remark))
}

/// What was read of one queue: rows, or why there are none.
type Part = anyhow::Result<Vec<Row>>;

/// Reads several queues. One that cannot be read does not hide the others; if none can be read, that is an error. Of the sorted rows,
/// the first [`MOST`] are kept.
async fn together<F: Future<Output = Part>>(
    parts: Vec<F>,
    remark: String,
    sort: impl FnOnce(&mut [Row]),
) -> anyhow::Result<Page> {
    let parts: Vec<Part> = stream::iter(parts).buffered(AT_ONCE).collect().await;
    let (mut rows, mut remarks) = (Vec::new(), Vec::from_iter((!remark.is_empty()).then_some(remark)));
    let is_lost = !parts.is_empty() && parts.iter().all(Result::is_err);
    for part in parts {
        match part {
            Ok(part) => rows.extend(part),
            Err(error) if is_lost => return Err(error),
            Err(error) => remarks.push(format!("{error:#}")),
        }
    }
    sort(&mut rows);
    if rows.len() > MOST {
        remarks.push(format!("{MOST} of {} rows: choose a queue", rows.len()));
        rows.truncate(MOST);
    }
    Ok(Page { rows, remark: remarks.join("; "), ..Page::default() })
}
