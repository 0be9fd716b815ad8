//! Takes the spans that end: what there is room for goes on to the exporter, the rest is dropped and counted. Never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::trace::{Event, Status};
use opentelemetry::{Array, Context, KeyValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc::Sender;

/// A longer text of an attribute or of a handler's log line is cut.
const TEXT_BYTES: usize = 1024;

/// Where spans go in.
#[derive(Debug)]
pub(super) struct Funnel {
    pub(super) spans: Sender<SpanData>,
    /// How many found no room, until the exporter tells of them.
    pub(super) overflow: Arc<AtomicU64>,
}

impl SpanProcessor for Funnel {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, mut span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        bound(&mut span);
        if self.spans.try_send(span).is_err() {
            self.overflow.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Cuts what handlers may have made long, so that a full queue has a bounded size.
fn bound(span: &mut SpanData) {
    span.attributes.iter_mut().for_each(shorten);
    for Event { name, attributes, .. } in &mut span.events.events {
        if name.len() > TEXT_BYTES {
            *name = start(name).to_owned().into();
        }
        attributes.iter_mut().for_each(shorten);
    }
    if let Status::Error { description } = &mut span.status
        && description.len() > TEXT_BYTES
    {
        *description = start(description).to_owned().into();
    }
}

fn shorten(attribute: &mut KeyValue) {
    let long = match &attribute.value {
        Value::String(text) => text.as_str().len() > TEXT_BYTES,
        Value::Array(Array::String(texts)) => {
            texts.iter().map(|text| text.as_str().len()).sum::<usize>() > TEXT_BYTES
        }
        Value::Bool(_) | Value::I64(_) | Value::F64(_) => false,
        // Numbers may be many, and what else there may be is not known.
        Value::Array(_) | _ => true,
    };
    if long {
        attribute.value = start(&attribute.value.as_str()).to_owned().into();
    }
}

/// As much of the beginning as fits, in whole letters.
fn start(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
