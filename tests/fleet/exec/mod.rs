//! Programs run by the real binary whose worker dies or is frozen.

mod frozen;
mod ignored;
mod killed;
