//! What a row of a table says of its job.

use streamfleet::job::{Encoding, JobType, Timestamp};
use streamfleet_sql::foreign::Row;

use super::column::{Column, Form, PayloadFrom, TypeFrom};
use super::job::{Death, Found, id};
use super::mapping::{Mapping, Sort, TimeFrom};
use super::message::Message;
use super::moment;

/// A payload as it is sent, and the class that it names.
struct Payload {
    class: Option<String>,
    bytes: Vec<u8>,
    encoding: Encoding,
}

impl Mapping {
    /// Reads what a row says of its job.
    ///
    /// # Errors
    ///
    /// Says why the row cannot be a job.
    pub(super) fn found(&self, row: &Row, sort: Sort) -> Result<Found, String> {
        let Payload { class, bytes, encoding } = self.payload(row)?;
        let death = match sort {
            Sort::Waiting => None,
            Sort::Dead => Some(self.death(row)?),
        };
        Ok(Found {
            id: id(self.id(), &row.key.to_string()),
            job_type: self.job_type(row, class)?,
            payload: bytes,
            encoding,
            run_at: self.time(row, self.fields.run_at.as_ref())?,
            death,
        })
    }

    fn death(&self, row: &Row) -> Result<Death, String> {
        let fields = &self.fields;
        let error = fields.error.as_ref().and_then(|column| self.value(row, column)).unwrap_or_default();
        Ok(Death {
            error: String::from_utf8_lossy(error).into_owned(),
            attempts: self.attempts(row)?,
            died: self.time(row, fields.died_at.as_ref())?,
        })
    }

    fn attempts(&self, row: &Row) -> Result<u32, String> {
        let Some(column) = &self.fields.attempts else { return Ok(0) };
        let Some(text) = self.text(row, column)? else { return Ok(0) };
        text.parse().map_err(|_| format!("the column {column} is {text:?}, but must be a number of attempts"))
    }

    fn job_type(&self, row: &Row, class: Option<String>) -> Result<JobType, String> {
        let found = match &self.fields.job_type {
            TypeFrom::Constant(job_type) => return Ok(job_type.clone()),
            TypeFrom::Column(found) => found,
        };
        let is_class = matches!(&self.fields.payload, PayloadFrom::Column(Column { column, form })
            if *column == found.column && matches!(form, Form::Laravel | Form::Php));
        let named = if is_class { class } else { self.text(row, &found.column)?.map(str::to_owned) };
        let named = named.ok_or_else(|| format!("the column {} names no type", found.column))?;
        match &found.map {
            Some(map) => {
                map.get(&named).cloned().ok_or_else(|| format!("`type.map` does not have {named:?}"))
            }
            None => named.parse().map_err(|error| format!("{error}; `type.map` gives it another name")),
        }
    }

    fn payload(&self, row: &Row) -> Result<Payload, String> {
        let members = match &self.fields.payload {
            PayloadFrom::Column(column) => return self.payload_of(row, column),
            PayloadFrom::Members(members) => members,
        };
        let mut object = serde_json::Map::new();
        for Column { column, form } in members {
            let value = self.value(row, column).map(|bytes| Message::read(bytes, *form)).transpose();
            let value = value.map_err(|why| format!("the column {column} {why}"))?;
            object.insert(column.clone(), value.map(|message| message.payload).unwrap_or_default());
        }
        let bytes = serde_json::to_vec(&object).map_err(|error| error.to_string())?;
        Ok(Payload { class: None, bytes, encoding: Encoding::Json })
    }

    fn payload_of(&self, row: &Row, Column { column, form }: &Column) -> Result<Payload, String> {
        let bytes = self.value(row, column).ok_or_else(|| format!("the column {column} is NULL"))?;
        if *form == Form::Text {
            return Ok(Payload { class: None, bytes: bytes.to_vec(), encoding: Encoding::Raw });
        }
        let message = Message::read(bytes, *form).map_err(|why| format!("the column {column} {why}"))?;
        // JSON stays as it is written: reading it may change numbers.
        let bytes = match form {
            Form::Json => bytes.to_vec(),
            Form::Text | Form::Laravel | Form::Php => {
                serde_json::to_vec(&message.payload).map_err(|error| error.to_string())?
            }
        };
        Ok(Payload { class: message.class, bytes, encoding: Encoding::Json })
    }

    fn time(&self, row: &Row, from: Option<&TimeFrom>) -> Result<Option<Timestamp>, String> {
        let Some(TimeFrom { column, unit }) = from else { return Ok(None) };
        let text = self.text(row, column)?.filter(|text| !text.is_empty());
        let time = text.map(|text| moment::read(text, *unit)).transpose();
        time.map_err(|why| format!("the column {column} {why}"))
    }

    fn text<'a>(&self, row: &'a Row, column: &String) -> Result<Option<&'a str>, String> {
        let text = self.value(row, column).map(std::str::from_utf8).transpose();
        text.map_err(|_| format!("the column {column} is not UTF-8"))
    }

    fn value<'a>(&self, row: &'a Row, column: &String) -> Option<&'a [u8]> {
        let at = self.columns.binary_search(column).ok()?;
        row.values.get(at)?.as_deref()
    }
}
