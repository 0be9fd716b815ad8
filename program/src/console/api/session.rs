//! Who asks: what the console in the browser must know before it shows anything.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Extension, State};
use serde::Serialize;
use utoipa_axum::routes;

use crate::console::access::{Csrf, HasSession, Needs, Person, Role};
use crate::console::routes::Routes;
use crate::console::site::Site;

pub(super) fn routes() -> Routes {
    Routes::default().describe(routes!(get_session), Needs::Role(Role::Viewer))
}

/// Who asks, and what they may do.
#[derive(Serialize, utoipa::ToSchema)]
struct Session {
    /// The name of the person or token.
    name: String,
    /// The role on every queue; null if there is none: `viewer`, `submitter`, `operator` or `admin`.
    #[schema(value_type = Option<String>)]
    role: Option<Role>,
    /// The roles on single queues, where they are more than `role`.
    #[schema(value_type = BTreeMap<String, String>)]
    queues: BTreeMap<String, Role>,
    /// Whether payloads, headers, results and errors are shown to them.
    payloads: bool,
    /// What a browser sends with every change, in the header `X-CSRF-Token`; empty for programs, which need none.
    csrf: String,
    /// How they logged in: `password`, `link` if the console has no accounts, or `elsewhere`: at a proxy, or by a token.
    login: &'static str,
    /// The prefix of all keys in Redis.
    namespace: String,
    /// The name of the environment, as in `[alerts]`; null if it has none.
    environment: Option<String>,
}

/// Shows who asks, and what they may do.
#[utoipa::path(get, path = "/api/v1/session", tag = "console",
    responses((status = 200, description = "Who asks", body = Session)))]
async fn get_session(
    State(site): State<Site>,
    person: Person,
    Csrf(csrf): Csrf,
    session: Option<Extension<HasSession>>,
) -> Json<Session> {
    let grants = person.grants();
    let login = match (session, site.gatekeeper().link()) {
        (None, _) => "elsewhere",
        (Some(_), Some(_)) => "link",
        (Some(_), None) => "password",
    };
    let config = &site.effective().config;
    Json(Session {
        name: person.name().to_owned(),
        role: grants.everywhere,
        queues: grants.queues.iter().map(|(queue, role)| (queue.to_string(), *role)).collect(),
        payloads: grants.payloads,
        csrf,
        login,
        namespace: config.redis.namespace.as_str().to_owned(),
        environment: config.alerts.as_ref().and_then(|alerts| alerts.environment.clone()),
    })
}
