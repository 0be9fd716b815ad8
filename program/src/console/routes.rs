//! Routes with their rules: none can be added without saying who may use it.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::access::{self, Needs};
use super::site::Site;

/// Routes with their rules.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<Site>,
    table: Vec<Route>,
}

/// One route, and who may use it.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) method: Method,
    /// The path with its parameters. A parameter `queue` names the queue on which a role is needed.
    pub(super) path: String,
    pub(super) needs: Needs,
}

impl Routes {
    /// Adds a page or a form, which GET or POST asks for.
    pub(super) fn add<H, T>(self, method: Method, path: &str, needs: Needs, handler: H) -> Self
    where
        H: Handler<T, Site>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("the methods in use can be filtered");
        self.add_methods(method, path, needs, on(filter, handler))
    }

    /// Adds what answers one method of a path.
    pub(super) fn add_methods(
        mut self,
        method: Method,
        path: &str,
        needs: Needs,
        answers: MethodRouter<Site>,
    ) -> Self {
        self.router = self.router.route(path, access::guarded(needs, answers));
        self.table.push(Route { method, path: path.to_owned(), needs });
        self
    }

    /// Adds other routes.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.table.extend(other.table);
        self
    }

    /// The routes, and who may use them.
    pub(super) fn table(&self) -> &[Route] {
        &self.table
    }

    pub(super) fn into_router(self) -> Router<Site> {
        self.router
    }
}
