//! Searches by a field of the payload. The statement reads as many values as the page has rows, in the order of their index,
//! and looks up their lives. A life that does not fulfill the other conditions is left out, so a page may have fewer rows, or
//! none, and still continue.

use super::row::{WIDTH, columns_of};
use super::{Cursor, Filter, Page, Row};
use crate::Error;
use crate::database::{Dialect, Row as Answer, Statement};
use crate::history::writing::{stored_name, stored_value};
use crate::history::{Day, Key};

pub(super) fn statement(
    dialect: Dialect,
    filter: &Filter,
    key: &Key,
    after: Option<&Cursor>,
    rows: usize,
) -> Statement {
    let day = match dialect {
        Dialect::MySql => "CAST(k.day AS CHAR)",
        Dialect::Postgres => "to_char(k.day, 'YYYY-MM-DD')",
        Dialect::Sqlite => "k.day",
    };
    let columns = columns_of("j");
    let text = format!("SELECT {columns}, {day}, k.life FROM (SELECT day, life FROM sf_keys WHERE queue = ");
    let mut statement = Statement::new(dialect, &text);
    statement.text(filter.queue.as_str()).add(" AND name = ").text(stored_name(&key.name).as_str());
    statement.add(" AND value = ").text(stored_value(&key.value).as_str());
    if let Some(to) = filter.to_ms {
        // What began later cannot have ended before.
        statement.add(" AND day <= ").day(Day::of_ms(to));
    }
    if let Some(Cursor { ms, life }) = after {
        let day = Day::of_ms(*ms);
        statement.add(" AND day <= ").day(day).add(" AND (day < ").day(day);
        statement.add(" OR life < ").text(life.to_string().as_str()).add(")");
    }
    statement.add(" ORDER BY day DESC, life DESC LIMIT ").digits(&[i64::try_from(rows).unwrap_or(i64::MAX)]);
    statement.add(") AS k LEFT JOIN sf_jobs AS j ON j.day = k.day AND j.life = k.life AND j.queue = ");
    statement.text(filter.queue.as_str());
    super::search::conditions(&mut statement, filter, "j.");
    statement.add(" ORDER BY k.day DESC, k.life DESC");
    statement
}

/// Reads the lives, and the place of the last value, at which the next page begins.
pub(super) fn page(answers: &[Answer], limit: usize) -> Result<Page, Error> {
    let mut page = Page::default();
    for answer in answers {
        if answer.text(0)?.is_some() {
            page.rows.push(Row::read(answer)?);
        }
    }
    if let Some(last) = answers.last().filter(|_| answers.len() == limit) {
        let day: Day = last.parsed(WIDTH, "day")?;
        page.next = Some(Cursor { ms: day.start_ms(), life: last.parsed(WIDTH + 1, "life")? });
    }
    Ok(page)
}
