//! The steps of a job as a graph, drawn as SVG: steps that come after others stand on their right.

use std::collections::HashMap;

use askama::Template;
use streamfleet::job::{Plan, Standing};
use streamfleet_engine::admin::StepsStatus;

use super::frame::Frame;
use super::table::step_look;

/// The size of a box, and the space between boxes.
const BOX: (u32, u32) = (150, 42);
const GAP: (u32, u32) = (44, 14);

/// How many letters of a name fit into a box.
const LETTERS: usize = 19;

/// The graph.
#[derive(Debug, Template)]
#[template(path = "graph.html")]
pub(super) struct Graph {
    width: u32,
    height: u32,
    title: String,
    boxes: Vec<StepBox>,
    /// The path of each line from a step to one that comes after it.
    lines: Vec<String>,
}

impl askama::filters::HtmlSafe for Graph {}

#[derive(Debug)]
struct StepBox {
    x: u32,
    y: u32,
    class: &'static str,
    name: String,
    full: String,
    state: String,
}

impl Graph {
    /// Draws the steps; `None` if there is no plan.
    pub(super) fn of(frame: &Frame, steps: &StepsStatus) -> Option<Self> {
        let plan = steps.ledger.plan.as_ref()?;
        let places = places(plan);
        let mut boxes = Vec::new();
        for step in plan.steps() {
            let (x, y) = corner(places[step.name.as_str()]);
            let (class, key) = match plan.standing(&steps.ledger, &step.name) {
                Standing::As(state) => step_look(state),
                Standing::Skipped => ("state cancelled", "step.skipped"),
            };
            boxes.push(StepBox {
                x,
                y,
                class,
                name: short_name(step.name.as_str()),
                full: step.name.to_string(),
                state: frame.t(key).to_owned(),
            });
        }
        let lines = plan.steps().iter().flat_map(|step| {
            let to = corner(places[step.name.as_str()]);
            let from = step.after.iter().filter_map(|before| places.get(before.as_str()));
            from.map(move |place| line(corner(*place), to)).collect::<Vec<_>>()
        });
        let (columns, rows) = places.values().fold((0, 0), |(x, y), place| (x.max(place.0), y.max(place.1)));
        let (width, height) = corner((columns + 1, rows + 1));
        let title = frame.t("steps.graph").to_owned();
        Some(Self {
            width: width - GAP.0 + 4,
            height: height - GAP.1 + 4,
            title,
            lines: lines.collect(),
            boxes,
        })
    }
}

/// The column and row of each step: one column after the last of those before it.
fn places(plan: &Plan) -> HashMap<&str, (u32, u32)> {
    let mut columns: HashMap<&str, u32> = HashMap::new();
    // Without cycles, each round places at least one step for good.
    for _ in plan.steps() {
        for step in plan.steps() {
            let before =
                step.after.iter().filter_map(|name| columns.get(name.as_str()).map(|column| column + 1));
            let column = before.max().unwrap_or(0);
            columns.insert(step.name.as_str(), column);
        }
    }
    let mut used: HashMap<u32, u32> = HashMap::new();
    let place = |name: &'_ str| {
        let column = columns.get(name).copied().unwrap_or(0);
        let row = used.entry(column).or_insert(0);
        *row += 1;
        (column, *row - 1)
    };
    let mut place = place;
    plan.steps().iter().map(|step| (step.name.as_str(), place(step.name.as_str()))).collect()
}

fn corner((column, row): (u32, u32)) -> (u32, u32) {
    (2 + column * (BOX.0 + GAP.0), 2 + row * (BOX.1 + GAP.1))
}

fn line(from: (u32, u32), to: (u32, u32)) -> String {
    let (x1, y1) = (from.0 + BOX.0, from.1 + BOX.1 / 2);
    let (x2, y2) = (to.0, to.1 + BOX.1 / 2);
    let middle = u32::midpoint(x1, x2);
    format!("M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}")
}

fn short_name(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use streamfleet::job::{PlannedStep, StepKind};

    use super::*;

    fn plan(steps: &[(&str, &[&str])]) -> Plan {
        let step = |(name, after): &(&str, &[&str])| PlannedStep {
            name: name.parse().unwrap(),
            kind: StepKind::Auto,
            after: after.iter().map(|name| name.parse().unwrap()).collect(),
        };
        Plan::new(steps.iter().map(step).collect()).unwrap()
    }

    #[test]
    fn a_step_stands_on_the_right_of_all_that_come_before_it() {
        let plan = plan(&[("last", &["b", "c"]), ("c", &["b"]), ("b", &["a"]), ("a", &[]), ("x", &[])]);
        let places = places(&plan);
        assert_eq!(
            [places["a"], places["b"], places["c"], places["last"], places["x"]],
            [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)]
        );
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(short_name("charge"), "charge");
        assert_eq!(short_name(&"é".repeat(30)).chars().count(), LETTERS);
    }
}
