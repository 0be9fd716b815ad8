//! `streamfleet console`, as programs and browsers use it.

mod api;
