//! The schemas of types: producers refuse what does not fit, and workers bury it.

mod producers;
mod worker;

use streamfleet::schema::{Schema, Schemas};

use harness::schema::TEXT;

fn schemas() -> Schemas {
    Schemas::default().with("test", Schema::parse(TEXT.as_bytes()).unwrap()).unwrap()
}
