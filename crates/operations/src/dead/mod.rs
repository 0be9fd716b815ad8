//! Dead letters: listing, counting, showing and exporting them, and editing, replaying and dropping them.

mod edit;
mod export;
mod groups;
mod letter;
mod list;
mod sweep;

pub use edit::{Edit, Edited, edit};
pub use export::{Export, export};
pub use groups::{Group, GroupFacts, OTHER, groups};
pub use letter::{Field, Kept, Letter, LetterFields, encoding, find};
pub use list::{LetterFacts, Listing, list};
pub(crate) use sweep::drop_selected;
pub use sweep::{Letters, Sweep, Swept, sweep};
