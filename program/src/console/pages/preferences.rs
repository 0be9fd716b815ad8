//! The theme and the language that somebody chose.

use axum::Form;
use axum::http::header;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;

use super::cookie;
use super::language::Language;
use super::theme::Theme;
use crate::console::link::Link;

/// What the form says.
#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    theme: String,
    #[serde(default)]
    language: String,
    /// The page on which the form was.
    #[serde(default)]
    back: String,
}

/// Keeps the choice in cookies, and leads back.
pub(super) async fn keep(Form(choice): Form<Choice>) -> Response {
    let back = Link::back(&choice.back).unwrap_or_else(|| Link::to(&[]));
    let mut response = Redirect::to(back.as_str()).into_response();
    let theme = Theme::of_name(&choice.theme).map(|theme| (cookie::THEME, theme.as_str()));
    let language = Language::of_tag(&choice.language).map(|language| (cookie::LANGUAGE, language.tag()));
    for (name, value) in theme.into_iter().chain(language) {
        response.headers_mut().append(header::SET_COOKIE, cookie::set(name, value, cookie::YEAR));
    }
    response
}
