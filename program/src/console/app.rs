//! The console in the browser: the files that `console/` is built into, which are part of the program. They are a client of the API,
//! and have no data of their own.

use axum::extract::Path;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::access::{Needs, Role};
use super::routes::Routes;

/// The paths and contents of the files. `npm run build` writes the list.
const FILES: &[(&str, &[u8])] = include!("../../../console/dist/files.rs");

/// The document of every page.
const DOCUMENT: &str = "index.html";

/// The routes of the files. Whoever asks for a page without a session is led to the login.
pub(super) fn routes() -> Routes {
    let viewer = Needs::Role(Role::Viewer);
    Routes::default()
        .add(Method::GET, "/app", viewer, document)
        .add(Method::GET, "/app/", viewer, document)
        .add(Method::GET, "/app/{*page}", viewer, document)
        .add(Method::GET, "/app/assets/{file}", Needs::Nothing, asset)
}

/// Serves the document, which shows the page of its address.
async fn document() -> Response {
    answer(DOCUMENT, "no-cache")
}

/// Serves a script, style sheet or picture. Its name has a hash of its content, so browsers may keep it.
async fn asset(Path(file): Path<String>) -> Response {
    answer(&format!("assets/{file}"), "public, max-age=31536000, immutable")
}

fn answer(path: &str, kept: &'static str) -> Response {
    let Some((_, content)) = FILES.iter().find(|(known, _)| *known == path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, kept)], *content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_only_files_that_are_there() {
        let (_, document) = FILES.iter().find(|(path, _)| *path == DOCUMENT).expect("the document is built");
        let document = std::str::from_utf8(document).unwrap();
        let mut named = document.split('"').filter_map(|text| text.strip_prefix("/app/")).peekable();
        assert!(named.peek().is_some(), "{document}");
        for path in named {
            assert!(FILES.iter().any(|(known, _)| *known == path), "{path}");
        }
        assert!(
            !document.contains("<style") && !document.contains("style="),
            "the policy refuses inline styles"
        );
        assert!(document.split("<script").skip(1).all(|script| script.contains("src=")), "{document}");
    }
}
