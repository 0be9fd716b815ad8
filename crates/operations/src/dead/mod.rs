//! Dead letters: listing, counting, showing and exporting them, and editing, replaying and dropping them.

mod begin;
mod deaths;
mod edit;
mod export;
mod group;
mod groups;
mod letter;
mod list;
mod sweep;

pub use begin::{LetterPlan, Selected, begin_drop, begin_replay};
pub use deaths::{DeathFacts, DeathList, DeathSpan, GroupDeaths, deaths};
pub use edit::{Edit, Edited, edit};
pub use export::{Export, export};
pub use group::{Column, ColumnValue, GroupDetail, group};
pub use groups::{Group, GroupFacts, OTHER, groups};
pub use letter::{Field, Kept, Letter, LetterFields, encoding, find};
pub use list::{LetterFacts, Listing, list};
pub use sweep::{Sweep, Swept, sweep};
