//! The languages of the console. Each has one file of texts; a test compares them with each other and with the code.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Chinese,
}

type Table = HashMap<String, String>;

static ENGLISH: LazyLock<Table> = LazyLock::new(|| read(include_str!("texts/en.json")));
static CHINESE: LazyLock<Table> = LazyLock::new(|| read(include_str!("texts/zh.json")));

fn read(text: &str) -> Table {
    serde_json::from_str(text).expect("a test reads every file of texts")
}

impl Language {
    /// All languages.
    pub(super) const ALL: [Self; 2] = [Self::English, Self::Chinese];

    /// Its tag, for the attribute `lang`, the cookie and the form.
    pub(super) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }

    /// Its own name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "中文",
        }
    }

    /// The language with this tag.
    pub(super) fn of_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.tag() == tag)
    }

    /// The language that a header `Accept-Language` prefers; English if it names none of ours.
    pub(super) fn accepted(header: &str) -> Self {
        let mut best = (Self::English, 0.0);
        for part in header.split(',') {
            let (range, parameters) = part.split_once(';').unwrap_or((part, ""));
            let weight = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |text| text.parse().ok());
            let language = match range.trim().split('-').next().map(str::to_ascii_lowercase).as_deref() {
                Some("en") => Self::English,
                Some("zh") => Self::Chinese,
                _ => continue,
            };
            // Of equal ones, the first wins.
            if let Some(weight) = weight.filter(|weight| *weight > best.1) {
                best = (language, weight);
            }
        }
        best.0
    }

    fn table(self) -> &'static Table {
        match self {
            Self::English => &ENGLISH,
            Self::Chinese => &CHINESE,
        }
    }

    /// Returns a text. A test finds keys that do not exist.
    pub(super) fn text(self, key: &str) -> &'static str {
        self.table().get(key).map_or("?", String::as_str)
    }

    /// Returns a text with the values of its `{placeholders}`.
    pub(super) fn fill(self, key: &str, values: &[(&str, &str)]) -> String {
        filled(self.text(key), values)
    }

    /// Returns the form of a text that a number needs: `{count} job|{count} jobs`.
    pub(super) fn number_of(self, key: &str, count: u64, shown: &str) -> String {
        let text = self.text(key);
        let form = match text.split_once('|') {
            Some((one, _)) if count == 1 => one,
            Some((_, many)) => many,
            None => text,
        };
        filled(form, &[("count", shown)])
    }
}

/// Replaces placeholders once, so that values may contain braces.
fn filled(text: &str, values: &[(&str, &str)]) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        out.push_str(values.iter().find(|(known, _)| *known == name).map_or("?", |(_, value)| value));
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "html") {
                found.push(path);
            }
        }
    }

    /// The keys that code and templates name: quoted, with a dot, beginning with the name of a group.
    fn named() -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut paths = Vec::new();
        sources(&root.join("src/console/pages"), &mut paths);
        sources(&root.join("templates"), &mut paths);
        let groups: BTreeSet<&str> =
            ENGLISH.keys().filter_map(|key| key.split_once('.').map(|(group, _)| group)).collect();
        let is_key = |text: &&str| {
            if text.ends_with(".html") {
                return false;
            }
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.';
            text.chars().all(fits) && text.split_once('.').is_some_and(|(group, _)| groups.contains(group))
        };
        let mut found = BTreeSet::new();
        for path in paths.iter().filter(|path| !path.ends_with("language.rs")) {
            let text = fs::read_to_string(path).unwrap();
            found.extend(text.split('"').filter(is_key).map(str::to_owned));
        }
        found
    }

    fn placeholders(text: &str) -> BTreeSet<String> {
        let parts = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
        parts.map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn each_text_that_is_named_exists_in_every_language_and_none_is_left_over() {
        let named = named();
        for language in Language::ALL {
            let known: BTreeSet<String> = language.table().keys().cloned().collect();
            let missing: Vec<_> = named.difference(&known).collect();
            let unused: Vec<_> = known.difference(&named).collect();
            assert!(
                missing.is_empty() && unused.is_empty(),
                "{language:?}: missing {missing:?}, unused {unused:?}"
            );
        }
    }

    #[test]
    fn all_languages_have_the_same_placeholders() {
        for (key, text) in ENGLISH.iter() {
            assert_eq!(placeholders(text), placeholders(&CHINESE[key]), "{key}");
        }
    }

    #[test]
    fn the_preferred_language_is_chosen_by_its_weight() {
        let chosen = [
            ("", Language::English),
            ("de", Language::English),
            ("zh", Language::Chinese),
            ("zh-TW,en;q=0.8", Language::Chinese),
            ("en-GB,zh;q=0.9", Language::English),
            ("en;q=0.3, zh-CN;q=0.7", Language::Chinese),
            ("zh;q=x,en", Language::English),
        ];
        for (header, language) in chosen {
            assert_eq!(Language::accepted(header), language, "{header}");
        }
    }

    #[test]
    fn placeholders_are_replaced_once() {
        assert_eq!(filled("a {x} b {y}", &[("x", "{y}"), ("y", "2")]), "a {y} b 2");
        assert_eq!(filled("open { and {z}", &[]), "open ?");
        assert_eq!(filled("open {", &[]), "open {");
    }
}
