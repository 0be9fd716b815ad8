//! The page before an action: it says what will be done, to how many, and asks for a reason. Nothing happens until its form is
//! sent.

use askama::Template;
use axum::response::Response;

use super::frame::Frame;
use super::section::Section;
use super::table::Table;
use crate::console::link::Link;

/// The name of the field with the reason.
pub(super) const REASON: &str = "reason";

/// The longest reason in bytes.
pub(super) const MAX_REASON: usize = 500;

/// A form.
#[derive(Template)]
#[template(path = "form.html")]
pub(super) struct Form<'a> {
    frame: &'a Frame,
    title: String,
    /// What will happen, in sentences.
    lines: Vec<String>,
    /// The jobs or letters that are meant, or a sample of them.
    table: Option<Table>,
    /// Where the form is sent to.
    action: String,
    fields: Vec<Field>,
    /// What the button says.
    button: String,
    is_drastic: bool,
    /// Where to go instead.
    back: String,
    /// Commands that do the same: how they are called, and the text.
    commands: Vec<(&'static str, String)>,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    name: &'static str,
    label: String,
    hint: String,
    value: String,
    control: Control,
    is_required: bool,
}

/// How a field is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Control {
    Line,
    Area,
    Hidden,
    Check,
    /// One of these values, with their names.
    Choice(Vec<(String, String)>),
}

impl Field {
    fn new(frame: &Frame, name: &'static str, label: &str, control: Control) -> Self {
        let (hint, value) = (String::new(), String::new());
        Self { name, label: frame.t(label).to_owned(), hint, value, control, is_required: false }
    }

    /// A line of text.
    pub(super) fn line(frame: &Frame, name: &'static str, label: &str) -> Self {
        Self::new(frame, name, label, Control::Line)
    }

    /// Several lines of text.
    pub(super) fn area(frame: &Frame, name: &'static str, label: &str) -> Self {
        Self::new(frame, name, label, Control::Area)
    }

    /// A box to check.
    pub(super) fn check(frame: &Frame, name: &'static str, label: &str) -> Self {
        Self::new(frame, name, label, Control::Check)
    }

    /// One of several values.
    pub(super) fn choice(
        frame: &Frame,
        name: &'static str,
        label: &str,
        values: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        Self::new(frame, name, label, Control::Choice(values.into_iter().collect()))
    }

    /// A value that nobody sees.
    pub(super) fn hidden(name: &'static str, value: impl Into<String>) -> Self {
        let (label, hint) = (String::new(), String::new());
        Self { name, label, hint, value: value.into(), control: Control::Hidden, is_required: false }
    }

    /// Why it is done.
    pub(super) fn reason(frame: &Frame) -> Self {
        Self { is_required: true, ..Self::line(frame, REASON, "form.reason").hint(frame, "form.reason_hint") }
    }

    /// Sets what is there at first.
    pub(super) fn value(self, value: impl Into<String>) -> Self {
        Self { value: value.into(), ..self }
    }

    /// Explains it.
    pub(super) fn hint(self, frame: &Frame, key: &str) -> Self {
        Self { hint: frame.t(key).to_owned(), ..self }
    }

    /// Makes it necessary.
    pub(super) fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    fn choices(&self) -> &[(String, String)] {
        match &self.control {
            Control::Choice(values) => values,
            Control::Line | Control::Area | Control::Hidden | Control::Check => &[],
        }
    }

    fn is_hidden(&self) -> bool {
        self.control == Control::Hidden
    }

    fn is_area(&self) -> bool {
        self.control == Control::Area
    }

    fn is_check(&self) -> bool {
        self.control == Control::Check
    }

    fn has(&self, value: &str) -> bool {
        self.value == value
    }
}

impl<'a> Form<'a> {
    /// A form that is sent to `action`. `back` is where its link leads.
    pub(super) fn new(frame: &'a Frame, title: impl Into<String>, (action, back): (&Link, &Link)) -> Self {
        Self {
            frame,
            title: title.into(),
            lines: Vec::new(),
            table: None,
            action: action.to_string(),
            fields: Vec::new(),
            button: frame.t("form.go").to_owned(),
            is_drastic: false,
            back: back.to_string(),
            commands: Vec::new(),
        }
    }

    /// Adds a sentence about what will happen.
    pub(super) fn line(mut self, text: impl Into<String>) -> Self {
        self.lines.push(text.into());
        self
    }

    /// Shows what is meant.
    pub(super) fn table(self, table: Table) -> Self {
        Self { table: Some(table), ..self }
    }

    /// Adds a field.
    pub(super) fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }

    /// Adds fields.
    pub(super) fn fields(mut self, fields: impl IntoIterator<Item = Field>) -> Self {
        self.fields.extend(fields);
        self
    }

    /// Names the button.
    pub(super) fn button(self, key: &str) -> Self {
        Self { button: self.frame.t(key).to_owned(), ..self }
    }

    /// Marks what cannot be undone.
    pub(super) fn drastic(self) -> Self {
        Self { is_drastic: true, ..self }
    }

    /// Shows commands that do the same.
    pub(super) fn commands(self, commands: Vec<(&'static str, String)>) -> Self {
        Self { commands, ..self }
    }

    /// The answer with this form.
    pub(super) fn page(self, section: Section) -> Response {
        let title = self.title.clone();
        self.frame.page(&title, Some(section), &self)
    }
}

/// A reason as it was typed: without control characters, and not too long.
pub(super) fn reason(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let plain = plain.trim();
    let end = (0..=plain.len().min(MAX_REASON)).rev().find(|end| plain.is_char_boundary(*end)).unwrap_or(0);
    plain[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests_frame;
    use super::*;

    #[test]
    fn a_form_says_what_happens_and_hides_nothing_of_a_value() {
        let frame = tests_frame();
        let link = Link::job("mail", "a\"><b>");
        let form = Form::new(&frame, "<i>", (&link, &link))
            .line("it <b>stops</b>")
            .field(Field::line(&frame, "x", "form.reason").value("\"><script>"))
            .field(Field::reason(&frame));
        let html = form.render().unwrap();
        for hostile in ["<i>", "<b>", "<script>", "\"><script"] {
            assert!(!html.contains(hostile), "{hostile} in {html}");
        }
        assert!(html.contains(r#"name="csrf""#) && html.contains(r#"name="reason""#), "{html}");
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(reason(" a\r\nb\u{1b} "), "a  b");
        assert!(reason(&"é".repeat(1000)).len() <= MAX_REASON);
    }
}
