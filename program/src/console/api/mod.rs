//! The API under `/api/v1`, for programs.

use super::routes::Routes;

/// The routes of the API.
pub(super) fn routes() -> Routes {
    Routes::default()
}
