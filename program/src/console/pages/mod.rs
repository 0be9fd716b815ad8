//! The pages, for people.

use super::routes::Routes;

/// The routes of the pages.
pub(super) fn routes() -> Routes {
    Routes::default()
}
