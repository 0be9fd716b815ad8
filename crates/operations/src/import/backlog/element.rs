//! What an element of another system's list says of its job.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use streamfleet::job::{Encoding, Envelope, Timestamp};

use super::super::column::Form;
use super::super::job::Death;
use super::super::message::Message;
use super::super::moment;
use super::mapping::PayloadForm;
use super::system::System;

/// The classes in which Rails wraps a job for Sidekiq.
const ACTIVE_JOB: [&str; 2] =
    ["ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper"];

/// What an element says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Told {
    /// The class, task or function.
    pub(super) name: Option<String>,
    pub(super) payload: Vec<u8>,
    pub(super) encoding: Encoding,
    /// When it is due, if the element itself says so.
    pub(super) run_at: Option<Timestamp>,
    /// How it ended, if it has failed for good.
    pub(super) death: Death,
}

/// An element, and the fields of its job if they are kept elsewhere.
pub(super) struct Element<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) fields: Option<&'a Envelope>,
    /// The most bytes that something compressed may have.
    pub(super) max_payload: usize,
}

/// The name of the queue that an element of a shared list is for.
pub(super) fn queue_of(bytes: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Queued {
        queue: String,
    }
    serde_json::from_slice(bytes).ok().map(|queued: Queued| queued.queue)
}

impl Element<'_> {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub(super) fn read(&self, system: System, form: PayloadForm) -> Result<Told, String> {
        let mut told = match system {
            System::Hyperf => self.of_php(Form::Php),
            System::Laravel => self.of_php(Form::Laravel),
            System::Webman => self.of_webman(),
            System::Sidekiq => self.of_sidekiq(),
            System::BullMq => self.of_bullmq(),
            System::Celery => self.of_celery(),
            System::Rq => self.of_rq(),
        };
        if form == PayloadForm::Message {
            let (payload, encoding) = self.message(system);
            // What its arguments are does not matter, only what it is called.
            told = Ok(Told { payload, encoding, ..told.unwrap_or_default() });
        }
        told
    }

    /// The whole message. Of systems whose lists have only ids: the fields of the job, or the data of one of rq.
    fn message(&self, system: System) -> (Vec<u8>, Encoding) {
        let is_json = !matches!(system, System::Hyperf | System::Rq);
        let encoding = if is_json { Encoding::Json } else { Encoding::Raw };
        let bytes = match (system, self.fields) {
            (System::BullMq, Some(fields)) => {
                let pair = |(name, value): (&[u8], &[u8])| {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    (text(name), Value::from(text(value)))
                };
                Value::Object(fields.fields().map(pair).collect()).to_string().into_bytes()
            }
            (System::Rq, Some(fields)) => fields.get(b"data").unwrap_or_default().to_vec(),
            _ => self.bytes.to_vec(),
        };
        (bytes, encoding)
    }

    fn json<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, String> {
        serde_json::from_slice(self.bytes)
            .map_err(|error| format!("it is no message of this system: {error}"))
    }

    fn of_php(&self, form: Form) -> Result<Told, String> {
        let message = Message::read(self.bytes, form).map_err(|why| format!("the message {why}"))?;
        let payload = message.payload.to_string().into_bytes();
        Ok(Told { name: message.class, payload, ..Told::default() })
    }

    fn of_webman(&self) -> Result<Told, String> {
        #[derive(serde::Deserialize)]
        struct Package<'a> {
            queue: String,
            #[serde(borrow)]
            data: &'a RawValue,
            #[serde(default)]
            attempts: u32,
            #[serde(default)]
            error: String,
        }
        let package: Package<'_> = self.json()?;
        Ok(Told {
            name: Some(package.queue),
            payload: package.data.get().as_bytes().to_vec(),
            death: Death { error: package.error, attempts: package.attempts, died: None },
            ..Told::default()
        })
    }

    fn of_sidekiq(&self) -> Result<Told, String> {
        #[derive(serde::Deserialize)]
        struct Job<'a> {
            class: String,
            wrapped: Option<String>,
            #[serde(borrow)]
            args: &'a RawValue,
            #[serde(default)]
            retry_count: u32,
            #[serde(default)]
            error_class: String,
            #[serde(default)]
            error_message: String,
            failed_at: Option<f64>,
            retried_at: Option<f64>,
        }
        let job: Job<'_> = self.json()?;
        let args = job.args.get().as_bytes();
        let is_active_job = ACTIVE_JOB.contains(&job.class.as_str());
        let payload = if is_active_job {
            let [wrapped]: [&RawValue; 1] = serde_json::from_slice(args)
                .map_err(|error| format!("`args` is no job of Rails: {error}"))?;
            wrapped.get().as_bytes().to_vec()
        } else {
            args.to_vec()
        };
        let error = match (job.error_class.as_str(), job.error_message.as_str()) {
            ("", message) => message.to_owned(),
            (class, message) => format!("{class}: {message}"),
        };
        // Sidekiq 8 writes milliseconds, and those before it seconds.
        let died =
            job.retried_at.or(job.failed_at).and_then(|at| time(if at > 1e11 { at } else { at * 1e3 }));
        let attempts = if error.is_empty() { 0 } else { job.retry_count + 1 };
        let name = job.wrapped.filter(|_| is_active_job).unwrap_or(job.class);
        Ok(Told { name: Some(name), payload, death: Death { error, attempts, died }, ..Told::default() })
    }

    fn field(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.fields?.get(name.as_bytes())?).ok()
    }

    fn of_bullmq(&self) -> Result<Told, String> {
        let data = self.field("data").ok_or("its record is gone, or has no `data`")?;
        let ms = |name| self.field(name).and_then(|text| text.parse().ok()).and_then(time);
        let count = |name| self.field(name).and_then(|text| text.parse().ok());
        Ok(Told {
            name: self.field("name").map(str::to_owned),
            payload: data.as_bytes().to_vec(),
            death: Death {
                error: self.field("failedReason").unwrap_or_default().to_owned(),
                attempts: count("atm").or_else(|| count("attemptsMade")).unwrap_or_default(),
                died: ms("finishedOn"),
            },
            ..Told::default()
        })
    }

    fn of_celery(&self) -> Result<Told, String> {
        let message: Value = self.json()?;
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let body = text("/body").ok_or("it is no message of Celery: it has no `body`")?;
        let content = text("/content-type").unwrap_or_default();
        if content != "application/json" {
            return Err(format!("its body is {content:?}, and only application/json can be read"));
        }
        let body = match text("/properties/body_encoding") {
            Some("base64") => STANDARD.decode(body).map_err(|_| "its body is not base64".to_owned())?,
            _ => body.as_bytes().to_vec(),
        };
        let body: Value =
            serde_json::from_slice(&body).map_err(|error| format!("its body is not JSON: {error}"))?;
        let (args, kwargs, options) = (body.get(0), body.get(1), body.get(2));
        let has_more = |name| options.and_then(|more| more.get(name)).is_some_and(|more| !is_empty(more));
        if ["callbacks", "errbacks", "chain", "chord"].into_iter().any(has_more) {
            return Err("it has callbacks or a chain of further tasks, which would be lost".to_owned());
        }
        Ok(Told {
            name: text("/headers/task").map(str::to_owned),
            payload: json!({"args": args, "kwargs": kwargs}).to_string().into_bytes(),
            run_at: text("/headers/eta").map(eta).transpose()?,
            ..Told::default()
        })
    }

    fn of_rq(&self) -> Result<Told, String> {
        let data = self
            .fields
            .and_then(|fields| fields.get(b"data"))
            .ok_or("its record is gone, or has no `data`")?;
        let mut told = Told {
            death: Death {
                error: self.inflated("exc_info").unwrap_or_default(),
                attempts: 1,
                died: self.field("ended_at").and_then(|text| eta(text).ok()),
            },
            ..Told::default()
        };
        let call = call(&self.inflate(data)?)?;
        let [function, instance, args, kwargs]: [Value; 4] =
            serde_json::from_value(call).map_err(|_| "its data is no call of a function".to_owned())?;
        if !instance.is_null() {
            return Err("it calls a method of an object, which only Python can load".to_owned());
        }
        told.name = function.as_str().map(str::to_owned);
        told.payload = json!({"args": args, "kwargs": kwargs}).to_string().into_bytes();
        Ok(told)
    }

    fn inflated(&self, name: &str) -> Option<String> {
        let bytes = self.fields?.get(name.as_bytes())?;
        let text = self.inflate(bytes).unwrap_or_else(|_| bytes.to_vec());
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// What zlib has compressed, or the bytes themselves if they are not compressed.
    fn inflate(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        // The first byte of what zlib writes, with a window of 32 KiB.
        if bytes.first() != Some(&0x78) {
            return Ok(bytes.to_vec());
        }
        let most = self.max_payload.saturating_mul(4).saturating_add(1);
        let mut read = Vec::new();
        let inflated = flate2::read::ZlibDecoder::new(bytes).take(most as u64).read_to_end(&mut read);
        inflated.map_err(|error| format!("its data cannot be decompressed: {error}"))?;
        if read.len() >= most { Err("its data is too large".to_owned()) } else { Ok(read) }
    }
}

/// Reads the call of a function that rq has written, as JSON or as a pickle. A pickle is read as data: no class is ever loaded.
fn call(data: &[u8]) -> Result<Value, String> {
    if let Ok(read) = serde_json::from_slice(data) {
        return Ok(read);
    }
    let options = serde_pickle::DeOptions::new();
    serde_pickle::from_slice(data, options).map_err(|error| format!("its pickle cannot become JSON: {error}"))
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn time(ms: f64) -> Option<Timestamp> {
    (ms >= 0.0).then_some(ms as u64).and_then(Timestamp::from_ms)
}

/// Reads a time as Python writes it. One without an offset is in UTC.
fn eta(text: &str) -> Result<Timestamp, String> {
    let wrong = |_| format!("its time {text:?} cannot be read");
    match text.parse::<jiff::Timestamp>() {
        Ok(at) => {
            let ms = u64::try_from(at.as_millisecond()).map_err(wrong)?;
            Timestamp::from_ms(ms).ok_or_else(|| format!("its time {text:?} is not in the calendar"))
        }
        Err(_) => moment::read(text, super::super::mapping::Unit::Utc),
    }
}
