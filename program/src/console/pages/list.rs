//! A page that is one list: a form that narrows it, whose fields are in the address, and a link to the next page.

use askama::Template;
use serde::Deserialize;
use streamfleet::Queue;

use super::frame::Frame;
use super::table::Table;
use crate::console::link::Link;
use crate::console::problem::Problem;

/// The most names that a field proposes.
const PROPOSED: usize = 200;

/// The name of the parameter that says where a page begins.
const AFTER: &str = "after";

/// The page.
#[derive(Template)]
#[template(path = "list.html")]
pub(super) struct List<'a> {
    pub(super) frame: &'a Frame,
    pub(super) title: &'a str,
    pub(super) line: String,
    pub(super) narrow: Narrow,
    pub(super) table: Table,
    pub(super) remarks: Vec<String>,
    /// Where there is more than the list has: the text, and the address.
    pub(super) more: Vec<(String, String)>,
    pub(super) next: Option<String>,
}

/// What the address of a list says.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Asked(Vec<(String, String)>);

impl Asked {
    /// The value of a parameter; `None` if it is empty, as forms send fields that nobody filled in.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
        found.filter(|value| !value.is_empty())
    }

    /// Whether a text fulfils a parameter: it has its value in it, or the parameter is not there.
    pub(super) fn fits(&self, name: &str, text: &str) -> bool {
        self.get(name).is_none_or(|value| text.to_lowercase().contains(&value.to_lowercase()))
    }

    /// Leaves out other queues than the one that is asked for.
    pub(super) fn retain_queues(&self, queues: &mut Vec<Queue>) {
        if let Some(name) = self.get("queue") {
            queues.retain(|queue| queue.name().as_str() == name);
        }
    }

    /// Leaves the items of this page: `most` or fewer. Returns where the next page begins.
    ///
    /// # Errors
    ///
    /// [`Problem`] if the address names no place to begin.
    pub(super) fn cut<T>(&self, items: &mut Vec<T>, most: usize) -> Result<Option<usize>, Problem> {
        let from = self.get(AFTER).map(str::parse::<usize>).transpose();
        let wrong = |_| Problem::field("query.after", "it must be the place where an earlier page ended");
        let from = from.map_err(wrong)?.unwrap_or(0).min(items.len());
        items.drain(..from);
        let next = (items.len() > most).then_some(from + most);
        items.truncate(most);
        Ok(next)
    }
}

/// The form that narrows a list.
#[derive(Debug, Template)]
#[template(path = "narrow.html")]
pub(super) struct Narrow {
    path: String,
    /// Parameters that the form leaves as they are.
    kept: Vec<(&'static str, String)>,
    fields: Vec<Field>,
    go: &'static str,
}

impl askama::filters::HtmlSafe for Narrow {}

#[derive(Debug)]
struct Field {
    name: &'static str,
    label: &'static str,
    value: String,
    /// Values that the field proposes.
    choices: Vec<String>,
}

impl Narrow {
    /// A form for the list at this path, without fields yet.
    pub(super) fn new(frame: &Frame, path: &Link) -> Self {
        Self { path: path.to_string(), kept: Vec::new(), fields: Vec::new(), go: frame.t("filter.go") }
    }

    /// Keeps a parameter as it is.
    pub(super) fn keep(mut self, name: &'static str, value: &str) -> Self {
        self.kept.push((name, value.to_owned()));
        self
    }

    /// Adds a field for a parameter.
    pub(super) fn field(self, frame: &Frame, asked: &Asked, (name, key): (&'static str, &str)) -> Self {
        self.choice(frame, asked, (name, key), Vec::new())
    }

    /// Adds a field that proposes these values, the first of them.
    pub(super) fn choice(
        mut self,
        frame: &Frame,
        asked: &Asked,
        (name, key): (&'static str, &str),
        mut choices: Vec<String>,
    ) -> Self {
        choices.truncate(PROPOSED);
        let value = asked.get(name).unwrap_or_default().to_owned();
        self.fields.push(Field { name, label: frame.t(key), value, choices });
        self
    }

    /// Adds the field for the queue.
    pub(super) fn queue(self, frame: &Frame, asked: &Asked, queues: &[Queue]) -> Self {
        self.choice(frame, asked, ("queue", "column.queue"), proposed(queues))
    }

    /// The address of the list as it is narrowed now.
    fn here(&self, link: Link) -> Link {
        let kept = self.kept.iter().fold(link, |link, (name, value)| link.with(name, value));
        let filled = self.fields.iter().filter(|field| !field.value.is_empty());
        filled.fold(kept, |link, field| link.with(field.name, &field.value))
    }

    /// The address of the page that begins there.
    pub(super) fn next(&self, link: Link, after: Option<impl ToString>) -> Option<String> {
        after.map(|after| self.here(link).with(AFTER, &after.to_string()).to_string())
    }
}

/// The names of queues that a field proposes.
pub(super) fn proposed(queues: &[Queue]) -> Vec<String> {
    queues.iter().take(PROPOSED).map(|queue| queue.name().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests_frame;
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Asked {
        Asked(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn pages_follow_one_another_and_keep_the_filter() {
        let asked = asked(&[("queue", " mail "), ("who", ""), ("after", "4")]);
        let mut items: Vec<u8> = (0..10).collect();
        let next = asked.cut(&mut items, 3).unwrap();
        assert_eq!((items, next), (vec![4, 5, 6], Some(7)));
        let frame = tests_frame();
        let narrow = Narrow::new(&frame, &Link::to(&["audit"]))
            .keep("tab", "over")
            .queue(&frame, &asked, &[])
            .field(&frame, &asked, ("who", "column.who"));
        assert_eq!(narrow.next(Link::to(&["audit"]), next).unwrap(), "/audit?tab=over&queue=mail&after=7");
        assert_eq!(narrow.next(Link::to(&["audit"]), None::<usize>), None);
    }

    #[test]
    fn the_last_page_has_no_next_one_and_a_wrong_place_is_refused() {
        let (mut items, mut none) = (vec![1, 2, 3], vec![1]);
        assert_eq!(asked(&[]).cut(&mut items, 3).unwrap(), None);
        assert_eq!(asked(&[("after", "9")]).cut(&mut none, 3).unwrap(), None);
        assert!(none.is_empty() && asked(&[("after", "x")]).cut(&mut items, 3).is_err());
    }
}
