//! The style sheet, the script and the icon, which are part of the program. Their addresses contain a hash of their content,
//! so that browsers may keep them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// One file.
struct Asset {
    /// The file's name without the hash.
    stem: &'static str,
    ending: &'static str,
    kind: &'static str,
    text: &'static str,
}

const STYLE: Asset = Asset {
    stem: "console",
    ending: "css",
    kind: "text/css; charset=utf-8",
    text: include_str!("assets/console.css"),
};

const SCRIPT: Asset = Asset {
    stem: "console",
    ending: "js",
    kind: "text/javascript; charset=utf-8",
    text: include_str!("assets/console.js"),
};

const ICON: Asset =
    Asset { stem: "icon", ending: "svg", kind: "image/svg+xml", text: include_str!("assets/icon.svg") };

const ALL: [Asset; 3] = [STYLE, SCRIPT, ICON];

static STYLE_NAME: LazyLock<String> = LazyLock::new(|| STYLE.name());
static SCRIPT_NAME: LazyLock<String> = LazyLock::new(|| SCRIPT.name());

impl Asset {
    /// The file's name with the hash.
    fn name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        format!("{}.{:016x}.{}", self.stem, hasher.finish(), self.ending)
    }
}

/// The name of the style sheet.
pub(super) fn style() -> &'static str {
    &STYLE_NAME
}

/// The name of the script.
pub(super) fn script() -> &'static str {
    &SCRIPT_NAME
}

/// Serves a file. During an update of several consoles, a browser may ask for the hash of another version: it gets this
/// version's file, and does not keep it.
pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let parts: Vec<&str> = name.split('.').collect();
    let (stem, ending) = match parts[..] {
        [stem, _, ending] | [stem, ending] => (stem, ending),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let Some(asset) = ALL.iter().find(|asset| asset.stem == stem && asset.ending == ending) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kept = if asset.name() == name { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, kept),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, asset.text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        for asset in ALL {
            let text = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !text.contains("//www.") && !text.contains("http:") && !text.contains("https:"),
                "{}",
                asset.name()
            );
            assert!(!text.contains("@import") && !text.contains("eval("), "{}", asset.name());
        }
        assert_ne!(style(), script());
    }
}
