//! What people read: sentences, facts and tables, one below the other.

use super::style::{Look, Meaning};
use super::table::Table;
use super::text::harmless_lines;

/// What people read. Everything in it is made harmless for a terminal when it is shown.
#[derive(Debug, Default)]
pub(crate) struct View(Vec<Part>);

#[derive(Debug)]
enum Part {
    /// One or more lines.
    Text(String),
    /// Names and values, one pair per line.
    Facts(Vec<(String, String)>),
    Table(Table),
}

impl From<String> for View {
    fn from(text: String) -> Self {
        Self(vec![Part::Text(text)])
    }
}

impl From<Table> for View {
    fn from(table: Table) -> Self {
        Self(vec![Part::Table(table)])
    }
}

/// Nothing, if there is nothing.
impl<V: Into<View>> From<Option<V>> for View {
    fn from(view: Option<V>) -> Self {
        view.map_or_else(Self::default, Into::into)
    }
}

/// Names and values, one pair per line. Names without a value are left out.
pub(crate) fn facts(facts: &[(&str, Option<String>)]) -> View {
    let known = facts.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
    View(vec![Part::Facts(known.collect())])
}

impl View {
    /// Adds what follows below.
    pub(crate) fn then(mut self, next: impl Into<Self>) -> Self {
        self.0.extend(next.into().0);
        self
    }

    pub(super) fn render(&self, look: Look, is_wide: bool) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => harmless_lines(text),
            Part::Facts(facts) => rendered(facts, look),
            Part::Table(table) => table.render(look, is_wide),
        });
        parts.collect::<Vec<_>>().join("\n")
    }
}

fn rendered(facts: &[(String, String)], look: Look) -> String {
    let lines = facts.iter().map(|(name, value)| {
        // What continues on the next line is indented, so that it does not look like another fact.
        let value = harmless_lines(value).replace('\n', &format!("\n{:13}", ""));
        let meaning = Meaning::of(&value).filter(|_| look.has_color && name == "state");
        let value = meaning.map_or_else(|| value.clone(), |meaning| meaning.painted(&value));
        format!("{:<12} {value}", format!("{name}:"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table;

    #[test]
    fn the_parts_of_a_view_are_shown_one_below_the_other() {
        let pairs =
            [("state", Some("dead".to_owned())), ("worker", None), ("error", Some("a\u{9b}b\nc".to_owned()))];
        let mut attempts = table(&["took"]);
        attempts.add_row(["5s"]);
        let view = facts(&pairs).then(attempts).then(None::<String>).then("the end\u{200b}".to_owned());
        let plain = "state:       dead\nerror:       a\\u{9b}b\n             c\ntook\n5s\nthe end\\u{200b}";
        assert_eq!(view.render(Look::PLAIN, false), plain);
        let colored = view.render(Look { has_color: true, ..Look::PLAIN }, false);
        assert!(colored.starts_with("state:       \u{1b}[31mdead\u{1b}[0m\nerror:       a"), "{colored}");
    }
}
