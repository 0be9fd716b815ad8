//! Who asks, and logging in and out. A browser keeps the session as a cookie that no script can read, and sends the token of its changes
//! in the header `X-CSRF-Token`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use utoipa_axum::routes;

use super::json_body::{must_be_json, parse};
use super::{Problem, ProblemKind, Routes};
use crate::console::access::{
    Csrf, HasSession, Needs, NotLoggedIn, Person, Role, by_link, by_password, end_session,
};
use crate::console::app_state::AppState;

/// Where sessions begin and end.
pub(in crate::console) const SESSION_PATH: &str = "/api/v1/session";

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(get_session), Needs::Nothing)
        .describe(routes!(log_in), Needs::Nothing)
        .describe(routes!(log_out), Needs::Nothing)
}

/// The console, and who asks.
#[derive(Serialize, utoipa::ToSchema)]
struct Session {
    /// The version of the console.
    version: &'static str,
    /// What the configuration calls this environment, such as `staging` (`alerts.environment`); null if it has no name.
    environment: Option<String>,
    /// How people log in: with a `password`, with the `link` that the console has printed, or at a `proxy`.
    way_in: &'static str,
    /// Who asks; null if nobody is logged in.
    person: Option<SessionPerson>,
}

/// A person or a program, and what they may do.
#[derive(Serialize, utoipa::ToSchema)]
struct SessionPerson {
    name: String,
    /// The role on every queue; null if there are only roles on single queues.
    role: Option<&'static str>,
    /// The roles on single queues. The stronger one of both counts.
    queues: BTreeMap<String, &'static str>,
    /// Whether payloads, headers, results and errors may be shown.
    payloads: bool,
    /// Whether the configuration hides some fields from them. Then no form can show a payload to edit it.
    masked: bool,
    /// The namespace of the queues in Redis.
    namespace: String,
    /// What the header `X-CSRF-Token` of every change must have; empty for a program with a token, which needs none.
    csrf_token: String,
    /// Whether there is a session to log out of: neither a proxy's login nor a token has one.
    can_log_out: bool,
}

impl SessionPerson {
    fn of(person: &Person, app: &AppState, extensions: &Extensions) -> Self {
        let grants = person.grants();
        Self {
            name: person.name().to_owned(),
            role: grants.everywhere.map(Role::as_str),
            queues: grants.queues.iter().map(|(queue, role)| (queue.to_string(), role.as_str())).collect(),
            payloads: person.sees_payloads(),
            masked: !app.mask_for(person).is_empty(),
            namespace: app.broker.namespace().to_string(),
            csrf_token: extensions.get::<Csrf>().cloned().unwrap_or_default().0,
            can_log_out: extensions.get::<HasSession>().is_some(),
        }
    }
}

/// Shows the console, and who asks and what they may do.
///
/// It answers strangers, too: then `person` is null.
#[utoipa::path(get, path = "/api/v1/session", tag = "console",
    responses((status = 200, description = "The console, and who asks", body = Session)))]
async fn get_session(State(app): State<AppState>, extensions: Extensions) -> Json<Session> {
    let alerts = app.effective.config.alerts.as_ref();
    let person = extensions.get::<Person>();
    Json(Session {
        version: env!("CARGO_PKG_VERSION"),
        environment: alerts.and_then(|alerts| alerts.environment.clone()),
        way_in: app.gatekeeper.way_in(),
        person: person.map(|person| SessionPerson::of(person, &app, &extensions)),
    })
}

/// Who somebody is: a name and a password, or the key of the link that the console has printed.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Login, examples(json!({"name": "ann", "password": "correct horse"})))]
struct Login {
    /// The name of the account.
    #[serde(default)]
    name: String,
    /// Its password.
    #[schema(value_type = Option<String>)]
    password: Option<SecretString>,
    /// The key of the link, in place of the name and the password.
    #[schema(value_type = Option<String>)]
    key: Option<SecretString>,
}

/// Logs a browser in.
///
/// The answer sets the cookie of the session. `GET /api/v1/session` then has the token for changes.
#[utoipa::path(post, path = "/api/v1/session", tag = "console", request_body = Login,
    responses((status = 204, description = "The session has begun",
            headers(("Set-Cookie" = String, description = "The session"))),
        (status = 401, description = "The name, the password or the key is wrong"),
        (status = 422, description = "The body names neither a password nor a key"),
        (status = 429, description = "Too many attempts; `Retry-After` says when to try again")))]
async fn log_in(
    State(app): State<AppState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let refused = |why: BytesRejection| {
        Problem::new(ProblemKind::BodyNotReadable, why.body_text()).with_status(why.status())
    };
    let body = body.map_err(refused)?;
    let gatekeeper = &app.gatekeeper;
    // A request without a body is refused for what it lacks.
    let sent: &[u8] = if body.is_empty() { b"{}" } else { &body };
    if !body.is_empty() {
        must_be_json(&headers)?;
    }
    let cookie = match parse::<Login>(sent)? {
        Login { key: Some(key), .. } => by_link(gatekeeper, &headers, &key).ok_or(NotLoggedIn::Wrong),
        Login { name, password: Some(password), key: None } => {
            by_password(gatekeeper, (peer.ip(), &headers), name, password).await
        }
        Login { password: None, key: None, .. } => {
            return Err(Problem::field("/password", "send a name and a password, or the key of the link"));
        }
    };
    let cookie = cookie.map_err(|why| match why {
        NotLoggedIn::Wrong => {
            let why = "the name, the password or the key is wrong";
            Problem::new(ProblemKind::NotLoggedIn, why)
        }
        NotLoggedIn::Wait(wait) => {
            let seconds = wait.as_secs().max(1);
            Problem::busy(format!("too many attempts: try again in {seconds} s")).retry_after(seconds)
        }
    })?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Logs a browser out: its session ends at every console.
#[utoipa::path(delete, path = "/api/v1/session", tag = "console",
    responses((status = 204, description = "No session is left",
        headers(("Set-Cookie" = String, description = "A cookie that has expired")))))]
async fn log_out(State(app): State<AppState>, headers: HeaderMap) -> Response {
    let cookie = end_session(&app, &headers).await;
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
