//! The console in the browser: the files that `console/` is built into, which are part of the program. They are a client of the API,
//! and have no data of their own, so anybody may load them.

use axum::extract::Path;
use axum::handler::Handler as _;
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse as _, Response};
use tower_http::compression::CompressionLayer;

use super::access::Needs;
use super::problem::Problem;
use super::routes::Routes;

/// The paths and contents of the files. `npm run build` writes the list.
const FILES: &[(&str, &[u8])] = include!("../../../console/dist/files.rs");

/// The document of every page.
const DOCUMENT: &str = "index.html";

/// How paths begin that are for programs, and never those of pages.
const FOR_PROGRAMS: [&str; 4] = ["api", "assets", "healthz", "metrics"];

/// The routes of the files that the document names. Only they are compressed: nothing in them is secret.
pub(super) fn routes() -> Routes {
    let asset = asset.layer(CompressionLayer::new());
    Routes::default().add(Method::GET, "/assets/{file}", Needs::Nothing, asset)
}

/// Answers what no route answers: a path that may be that of a page gets the document, which shows the page, or the login. Only the
/// document knows which pages there are.
pub(super) async fn page(method: Method, uri: Uri) -> Response {
    if [Method::GET, Method::HEAD].contains(&method) && may_be_page(uri.path()) {
        answer(DOCUMENT, "no-cache")
    } else {
        Problem::not_found("nothing has this address").into_response()
    }
}

/// Returns false for paths of programs, and of files that browsers and robots ask every site for, such as `/favicon.ico`.
fn may_be_page(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    !first.contains('.') && !FOR_PROGRAMS.contains(&first)
}

/// Serves a script, style sheet or picture. Its name has a hash of its content, so browsers may keep it.
async fn asset(Path(file): Path<String>) -> Response {
    answer(&format!("assets/{file}"), "public, max-age=31536000, immutable")
}

fn answer(path: &str, kept: &'static str) -> Response {
    let Some((_, content)) = FILES.iter().find(|(known, _)| *known == path) else {
        let why = "no file has this name: if the console was updated in the meantime, load the page again";
        return Problem::not_found(why).into_response();
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
        let mut named = document.split('"').filter(|text| text.starts_with("/assets/")).peekable();
        assert!(named.peek().is_some(), "{document}");
        for path in named {
            assert!(FILES.iter().any(|(known, _)| *known == &path[1..]), "{path}");
        }
        assert!(
            !document.contains("<style") && !document.contains("style="),
            "the policy refuses inline styles"
        );
        assert!(document.split("<script").skip(1).all(|script| script.contains("src=")), "{document}");
    }

    #[test]
    fn neither_the_document_nor_a_style_names_another_server() {
        for (path, content) in
            FILES.iter().filter(|(path, _)| path.ends_with("html") || path.ends_with("css"))
        {
            let text = String::from_utf8_lossy(content);
            let found = ["http:", "https:", "@import"].iter().find(|mark| text.contains(**mark));
            assert_eq!(found, None, "{path}");
        }
    }

    #[test]
    fn a_path_of_a_program_or_of_a_wellknown_file_is_no_page() {
        for page in ["/", "/login", "/queues/mail/jobs/..%20", "/queues/mail/jobs/a.b", "/apiary"] {
            assert!(may_be_page(page), "{page}");
        }
        for other in
            ["/api", "/api/v2/queues", "/assets", "/healthz/x", "/metrics", "/favicon.ico", "/.well-known/x"]
        {
            assert!(!may_be_page(other), "{other}");
        }
    }
}
