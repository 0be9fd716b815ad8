//! Each route, asked by everybody who may and may not. The list of routes comes from the router itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use streamfleet::dev_server::DevServer;
use streamfleet::job::GateName;
use streamfleet::schema::Schemas;
use streamfleet::{Broker, RedisConfig, Shutdown};
use streamfleet_operations::{Doors, OPERATIONS};
use streamfleet_service::config::{Effective, Flags, Sources};
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::access::{Gatekeeper, Needs, Role, digest};
use super::app_state::Shared;
use super::routes::Route;
use super::{router, routes};

const LISTEN: &str = "127.0.0.1:9470";

/// A console without a listener, with one token for each role.
struct Stage {
    router: Router,
    server: DevServer,
    _folder: TempDir,
}

impl Stage {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let server = DevServer::builder().start(&folder.path().join("redis")).await.unwrap();
        let mut accounts = String::new();
        for role in Role::ALL.map(Role::as_str) {
            let sha256 =
                |token: &str| digest(token).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let elsewhere = format!("{role}-elsewhere");
            accounts.push_str(&format!(
                "[tokens.{role}]\nsha256 = \"{}\"\nrole = \"{role}\"\n\
                 [tokens.{elsewhere}]\nsha256 = \"{}\"\nqueues = {{ elsewhere = \"{role}\" }}\n",
                sha256(role),
                sha256(&elsewhere)
            ));
        }
        let accounts_file = folder.path().join("accounts.toml");
        std::fs::write(&accounts_file, accounts).unwrap();
        let mut effective = effective();
        effective.config.console.accounts_file = Some(accounts_file);
        effective.config.console.requests_per_second = 10_000;
        let router = stage_router(&server, effective).await;
        Self { router, server, _folder: folder }
    }

    async fn ask(&self, route: &Route, headers: HeaderMap) -> Response<Body> {
        let request = Request::builder().method(route.method.clone()).uri(example(&route.path));
        let mut request = request.body(Body::empty()).unwrap();
        *request.headers_mut() = headers;
        request.headers_mut().insert(header::HOST, LISTEN.parse().unwrap());
        request.extensions_mut().insert(ConnectInfo::<SocketAddr>("127.0.0.1:1".parse().unwrap()));
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn status(&self, route: &Route, token: Option<&str>) -> StatusCode {
        let bearer = token.map(|token| (header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap()));
        self.ask(route, bearer.into_iter().collect()).await.status()
    }
}

fn effective() -> Effective {
    Sources::of_process(Vec::new(), Flags::default()).read().unwrap()
}

async fn stage_router(server: &DevServer, effective: Effective) -> Router {
    let broker = Broker::connect(RedisConfig::default().url(server.url())).await.unwrap();
    let gatekeeper = Gatekeeper::open(&effective.config.console, LISTEN.parse().unwrap()).unwrap();
    router(Shared::new(broker, (effective, Schemas::default()), gatekeeper, Shutdown::new()))
}

/// The path with something for each parameter.
fn example(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{queue}" => "mail",
        _ if part.starts_with('{') => "1-1",
        _ => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

fn is_refused(status: StatusCode) -> bool {
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status)
}

#[tokio::test]
async fn each_route_lets_those_pass_who_may_use_it_and_nobody_else() {
    let (mut stage, routes) = (Stage::new().await, routes());
    let nobody = stage.status(&routes.table()[0], Some("no such token")).await;
    assert_eq!(nobody, StatusCode::UNAUTHORIZED);
    for route in routes.table() {
        let shown = format!("{} {}", route.method, route.path);
        let Needs::Role(needed) = route.needs else {
            assert!(!is_refused(stage.status(route, None).await), "{shown}");
            continue;
        };
        assert_eq!(stage.status(route, None).await, StatusCode::UNAUTHORIZED, "{shown}");
        for role in Role::ALL {
            let status = stage.status(route, Some(role.as_str())).await;
            assert_eq!(is_refused(status), role < needed, "{shown} by {}: {status}", role.as_str());
            if route.path.contains("{queue}") {
                let elsewhere = format!("{}-elsewhere", role.as_str());
                let status = stage.status(route, Some(&elsewhere)).await;
                assert_eq!(status, StatusCode::FORBIDDEN, "{shown} by {elsewhere}");
            }
        }
    }
    drop(stage.router);
    stage.server.stop().await.unwrap();
}

#[tokio::test]
async fn each_change_from_another_site_is_refused() {
    let folder = TempDir::new().unwrap();
    let server = DevServer::builder().start(&folder.path().join("redis")).await.unwrap();
    let gatekeeper = Gatekeeper::open(&effective().config.console, LISTEN.parse().unwrap()).unwrap();
    let link = gatekeeper.link().unwrap().to_owned();
    let broker = Broker::connect(RedisConfig::default().url(server.url())).await.unwrap();
    let router = router(Shared::new(broker, (effective(), Schemas::default()), gatekeeper, Shutdown::new()));
    let mut stage = Stage { router, server, _folder: folder };
    let login = Request::builder().method(Method::POST).uri("/api/v1/session");
    let login = login.header(header::HOST, LISTEN).header(header::CONTENT_TYPE, "application/json");
    let login = login.extension(ConnectInfo::<SocketAddr>("127.0.0.1:1".parse().unwrap()));
    let login = login.body(Body::from(format!(r#"{{"key": "{link}"}}"#))).unwrap();
    let begun = stage.router.clone().oneshot(login).await.unwrap();
    let cookie = begun.headers()[header::SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    let cookie = || (header::COOKIE, cookie.parse().unwrap());
    for route in routes().table().iter().filter(|route| route.method != Method::GET) {
        let foreign = ("sec-fetch-site".parse().unwrap(), "cross-site".parse().unwrap());
        let headers: HeaderMap = [cookie(), foreign].into_iter().collect();
        assert_eq!(
            stage.ask(route, headers).await.status(),
            StatusCode::FORBIDDEN,
            "{route:?}: another site"
        );
        let headers: HeaderMap = [cookie()].into_iter().collect();
        assert_eq!(stage.ask(route, headers).await.status(), StatusCode::FORBIDDEN, "{route:?}: no token");
        let wrong = ("x-csrf-token".parse().unwrap(), "AAAA".parse().unwrap());
        let headers: HeaderMap = [cookie(), wrong].into_iter().collect();
        assert_eq!(
            stage.ask(route, headers).await.status(),
            StatusCode::FORBIDDEN,
            "{route:?}: a wrong token"
        );
    }
    drop(stage.router);
    stage.server.stop().await.unwrap();
}

#[tokio::test]
async fn a_change_is_made_and_noted_though_its_client_is_gone() {
    let mut stage = Stage::new().await;
    let request = Request::builder().method(Method::PUT).uri("/api/v1/queues/mail/gates/type:mail.send");
    let request = request
        .header(header::HOST, LISTEN)
        .header(header::AUTHORIZATION, "Bearer operator")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(r#"{"concurrency": 4, "reason": "too many"}"#));
    let mut client = Box::pin(stage.router.clone().oneshot(request.unwrap()));
    assert!(futures_util::poll!(&mut client).is_pending());
    drop(client);
    let broker = Broker::connect(RedisConfig::default().url(stage.server.url())).await.unwrap();
    let queue = broker.queue("mail".parse().unwrap());
    let noted = async {
        while queue.audit().recent(None, 1).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), noted).await.expect("the change is in the audit");
    let gate: GateName = "type:mail.send".parse().unwrap();
    assert!(queue.gates().list().await.unwrap().iter().any(|status| status.rule.gate == gate));
    drop(stage.router);
    stage.server.stop().await.unwrap();
}

#[test]
fn no_route_is_listed_twice() {
    let mut seen = BTreeMap::new();
    for Route { method, path, needs, .. } in routes().table() {
        assert!(seen.insert((method.to_string(), path.clone()), *needs).is_none(), "{method} {path}");
    }
    assert!(!seen.is_empty());
}

#[test]
fn every_operation_of_the_table_has_a_route_with_its_role() {
    let routes = routes();
    for operation in OPERATIONS {
        let mut of_it = routes.table().iter().filter(|route| route.operation == Some(operation.name));
        let needs = of_it.next().map(|route| route.needs);
        let want = (operation.doors == Doors::Both).then_some(Needs::Role(operation.role));
        assert_eq!(needs, want, "{}", operation.name);
    }
}

#[test]
fn every_route_of_the_api_that_needs_a_role_is_an_operation_of_the_table() {
    let routes = routes();
    let of_api = routes.table().iter().filter(|route| route.path.starts_with("/api/"));
    for Route { method, path, needs, operation } in of_api {
        assert!(*needs == Needs::Nothing || operation.is_some(), "{method} {path}");
    }
}
