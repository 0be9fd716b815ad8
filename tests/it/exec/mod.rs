//! Programs run by the real binary, whose worker dies or stands still.

mod frozen;
mod killed;
