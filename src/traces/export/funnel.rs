//! Receives the spans that end. Those that fit into the queue go to the exporter; the rest are dropped and counted.
//! Never waits.

use std::time::Duration;

use opentelemetry::trace::{Event, Status};
use opentelemetry::{Array, Context, KeyValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use crate::batcher::LossySender;

/// Longer texts of attributes and of a handler's log lines are cut.
const TEXT_BYTES: usize = 1024;

/// The entrance for spans that have ended.
#[derive(Debug)]
pub(super) struct Funnel {
    pub(super) spans: LossySender<SpanData>,
}

impl SpanProcessor for Funnel {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, mut span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        bound(&mut span);
        self.spans.offer(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Shortens long texts from handlers, so that a full queue has a bounded size.
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
        // There may be many numbers, and other kinds of values are unknown.
        Value::Array(_) | _ => true,
    };
    if long {
        attribute.value = start(&attribute.value.as_str()).to_owned().into();
    }
}

/// Returns as much of the beginning as fits, without splitting a character.
fn start(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
