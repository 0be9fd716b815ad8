//! Routes with their rules: none can be added without saying who may use it. Those of the API also describe themselves.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use streamfleet_operations::Operation;
use utoipa::openapi::path::PathItem;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::router::UtoipaMethodRouter;

use super::access::{self, Needs};
use super::api::only_described;
use super::app_state::AppState;

/// Routes with their rules.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<AppState>,
    table: Vec<Route>,
    described: Described,
}

/// What the routes of the API say about themselves.
#[derive(Default)]
pub(super) struct Described {
    /// Paths with their operations, and who may use them.
    pub(super) operations: Vec<(String, PathItem, Needs)>,
    /// The schemas that they name.
    pub(super) schemas: Vec<(String, RefOr<Schema>)>,
}

/// One route, and who may use it. Tests ask each route with each role.
#[cfg_attr(not(test), expect(dead_code, reason = "only tests list the routes"))]
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) method: Method,
    /// The path with its parameters. A parameter `queue` names the queue on which a role is needed.
    pub(super) path: String,
    pub(super) needs: Needs,
    /// The operation of the table, if it is one.
    pub(super) operation: Option<&'static str>,
}

impl Routes {
    /// Adds what answers one method of a path.
    pub(super) fn add<H, T>(self, method: Method, path: &str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("the methods in use can be filtered");
        let route = Route { method, path: path.to_owned(), needs, operation: None };
        self.add_route(route, on(filter, handler))
    }

    fn add_route(mut self, route: Route, answers: MethodRouter<AppState>) -> Self {
        self.router = self.router.route(&route.path, access::guarded(route.needs, answers));
        self.table.push(route);
        self
    }

    /// Adds an operation of the table.
    pub(super) fn operation(self, operation: &Operation, described: UtoipaMethodRouter<AppState>) -> Self {
        self.describe_as(Some(operation.name), described, Needs::Role(operation.role))
    }

    /// Adds a request of the API, whose method and path are those that it describes.
    pub(super) fn describe(self, described: UtoipaMethodRouter<AppState>, needs: Needs) -> Self {
        self.describe_as(None, described, needs)
    }

    fn describe_as(
        mut self,
        operation: Option<&'static str>,
        (schemas, paths, answers): UtoipaMethodRouter<AppState>,
        needs: Needs,
    ) -> Self {
        self.described.schemas.extend(schemas);
        for (path, item) in paths.paths {
            // Anybody may probe the console, by whatever address.
            let answers = match needs {
                Needs::Nothing => answers.clone(),
                Needs::Role(_) => only_described(&item, answers.clone()),
            };
            for method in methods(&item) {
                let route = Route { method, path: path.clone(), needs, operation };
                self = self.add_route(route, answers.clone());
            }
            self.described.operations.push((path, item, needs));
        }
        self
    }

    /// Adds other routes.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.table.extend(other.table);
        self.described.operations.extend(other.described.operations);
        self.described.schemas.extend(other.described.schemas);
        self
    }

    /// What the routes say about themselves.
    pub(super) fn described(&self) -> &Described {
        &self.described
    }

    /// The routes, and who may use them.
    #[cfg(test)]
    pub(super) fn table(&self) -> &[Route] {
        &self.table
    }

    pub(super) fn into_router(self) -> Router<AppState> {
        self.router
    }
}

/// The methods of the operations of a path.
fn methods(item: &PathItem) -> impl Iterator<Item = Method> + use<> {
    let known = [
        (Method::GET, item.get.is_some()),
        (Method::PUT, item.put.is_some()),
        (Method::POST, item.post.is_some()),
        (Method::DELETE, item.delete.is_some()),
        (Method::PATCH, item.patch.is_some()),
    ];
    known.into_iter().filter(|(_, is_there)| *is_there).map(|(method, _)| method)
}
