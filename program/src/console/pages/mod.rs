//! The pages, for people.
//!
//! A handler takes a `frame`, which knows the language and who asks, reads what its page shows (never more than a bounded part of
//! Redis), and gives the frame a template of `program/templates`. `table`, `form`, `chart`, `timeline` and `graph` are the parts
//! that pages consist of. An action has two steps: a `form` says what will be done, and what it sends is done, noted in the
//! audit (`action`) and reported as a `message` on the next page. All texts are in `language`.

mod action;
mod alerts;
mod assets;
mod audit;
mod bulk;
mod campaigns;
mod chart;
mod commands;
mod content;
mod cookie;
mod criteria;
mod dead;
mod dead_groups;
mod decisions;
mod excerpt;
mod failure;
mod form;
mod found;
mod frame;
mod gates;
mod graph;
mod incident;
mod incidents;
mod job;
mod job_actions;
mod jobs;
mod language;
mod letter;
mod list;
mod login;
mod message;
mod needs;
mod next_step;
mod overview;
mod payload;
mod plan;
mod preferences;
mod queue;
mod recurring;
mod running;
mod samples;
mod section;
mod steps;
mod submit;
mod table;
mod target;
mod terms;
mod terms_form;
mod theme;
mod timeline;
mod trend;
mod type_figures;
mod workers;

use axum::http::Method;

pub(super) use self::failure::{nowhere, readable};
pub(super) use self::login::{LoginRemark, login};
use super::access::{Needs, Role};
use super::routes::Routes;

const VIEWER: Needs = Needs::Role(Role::Viewer);
const SUBMITTER: Needs = Needs::Role(Role::Submitter);
const OPERATOR: Needs = Needs::Role(Role::Operator);

/// The routes of the pages.
pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Method::GET, "/assets/{file}", Needs::Nothing, assets::serve)
        .add(Method::POST, "/preferences", Needs::Nothing, preferences::keep)
        .add(Method::GET, "/", VIEWER, overview::show)
        .add(Method::GET, "/jobs", VIEWER, jobs::show)
        .add(Method::GET, "/running", VIEWER, running::show)
        .add(Method::GET, "/decisions", VIEWER, decisions::show)
        .add(Method::GET, "/campaigns", VIEWER, campaigns::show)
        .add(Method::GET, "/gates", VIEWER, gates::show)
        .add(Method::GET, "/recurring", VIEWER, recurring::show)
        .add(Method::GET, "/workers", VIEWER, workers::show)
        .add(Method::GET, "/audit", VIEWER, audit::show)
        .add(Method::GET, "/submit", SUBMITTER, submit::ask)
        .add_payload_form("/submit", SUBMITTER, submit::act)
        .with(of_queues())
        .with(of_jobs())
        .with(of_letters())
        .with(of_incidents())
}

/// The pages of one queue.
fn of_queues() -> Routes {
    Routes::default()
        .add(Method::GET, "/queues/{queue}", VIEWER, queue::show)
        .add(Method::GET, "/queues/{queue}/gates/{action}", OPERATOR, gates::ask)
        .add(Method::POST, "/queues/{queue}/gates/{action}", OPERATOR, gates::act)
        .add(Method::GET, "/queues/{queue}/recurring/{name}", OPERATOR, recurring::ask)
        .add(Method::POST, "/queues/{queue}/recurring/{name}", OPERATOR, recurring::act)
        .add(Method::GET, "/queues/{queue}/bulk/{action}", OPERATOR, bulk::ask)
        .add(Method::POST, "/queues/{queue}/bulk/{action}", OPERATOR, bulk::act)
}

/// The pages of incidents, and of where messages about them go.
fn of_incidents() -> Routes {
    Routes::default()
        .add(Method::GET, "/incidents", VIEWER, incidents::show)
        .add(Method::GET, "/incidents/{incident}", VIEWER, incident::show)
        .add(Method::GET, "/incidents/{incident}/ack", OPERATOR, incidents::ask)
        .add(Method::POST, "/incidents/{incident}/ack", OPERATOR, incidents::act)
        .add(Method::GET, "/alerts", OPERATOR, alerts::show)
        .add(Method::POST, "/alerts/{sink}/test", OPERATOR, alerts::test)
}

/// The pages of one job.
fn of_jobs() -> Routes {
    Routes::default()
        .add(Method::GET, "/queues/{queue}/jobs/{id}", VIEWER, job::show)
        .add(Method::GET, "/queues/{queue}/jobs/{id}/{action}", OPERATOR, job_actions::ask)
        .add_payload_form("/queues/{queue}/jobs/{id}/{action}", OPERATOR, job_actions::act)
        .add(Method::GET, "/queues/{queue}/jobs/{id}/steps/{step}/decide", OPERATOR, steps::ask)
        .add(Method::POST, "/queues/{queue}/jobs/{id}/steps/{step}/decide", OPERATOR, steps::act)
}

/// The pages of dead letters, and of the campaigns that replay them.
fn of_letters() -> Routes {
    Routes::default()
        .add(Method::GET, "/dead", VIEWER, dead_groups::show)
        .add(Method::GET, "/queues/{queue}/dead", VIEWER, dead::show)
        .add(Method::GET, "/queues/{queue}/dead/{letter}", VIEWER, letter::show)
        .add(Method::GET, "/queues/{queue}/dead/{letter}/{action}", OPERATOR, letter::ask)
        .add_payload_form("/queues/{queue}/dead/{letter}/{action}", OPERATOR, letter::act)
        .add(Method::GET, "/queues/{queue}/dead-drop", OPERATOR, plan::ask_drop)
        .add(Method::POST, "/queues/{queue}/dead-drop", OPERATOR, plan::drop_all)
        .add(Method::GET, "/queues/{queue}/campaigns", VIEWER, campaigns::of_queue)
        .add(Method::GET, "/queues/{queue}/campaigns/plan", OPERATOR, plan::campaign)
        .add(Method::POST, "/queues/{queue}/campaigns/plan", OPERATOR, plan::begin)
        .add(Method::GET, "/queues/{queue}/campaigns/{id}", VIEWER, campaigns::one)
        .add(Method::GET, "/queues/{queue}/campaigns/{id}/{action}", OPERATOR, campaigns::ask)
        .add(Method::POST, "/queues/{queue}/campaigns/{id}/{action}", OPERATOR, campaigns::act)
}
