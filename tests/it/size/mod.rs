//! Jobs that are large, have many fields, or are many: nobody waits for them but themselves.

mod fields;
mod full;
