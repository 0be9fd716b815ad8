//! Finds one value in a payload by its path, such as `.items[0].sku`, without building the rest of the payload.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::job::Encoding;
use crate::job::payload::read_msgpack;

/// The most steps of a path.
const MAX_STEPS: usize = 32;

/// Where a value is in a payload: at least one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::job) struct Path(pub(in crate::job) Vec<Step>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::job) enum Step {
    /// A member of an object. If it consists of digits, also an element of an array.
    Name(String),
    /// An element of an array, counted from 0.
    Index(usize),
}

/// A value that has a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Text(String),
    Integer(i128),
    Float(f64),
    /// `true`, `false` or `null`.
    Word(&'static str),
}

impl fmt::Display for Scalar {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => out.write_str(text),
            Self::Integer(number) => write!(out, "{number}"),
            Self::Float(number) => write!(out, "{number}"),
            Self::Word(word) => out.write_str(word),
        }
    }
}

/// Whether a character ends a name.
pub(super) fn ends_name(c: char) -> bool {
    "=!<>~".contains(c) || c.is_whitespace()
}

impl Path {
    /// Reads a path at the beginning of a text, and returns what follows it.
    pub(in crate::job) fn parse(text: &str) -> Result<(Self, &str), String> {
        let (mut steps, mut rest) = (Vec::new(), text);
        loop {
            let step = if let Some(after) = rest.strip_prefix('.') {
                let is_end = |c: char| ends_name(c) || c == '.' || c == '[';
                let (name, after) = after.split_at(after.find(is_end).unwrap_or(after.len()));
                (Step::Name(name.to_owned()), after)
            } else if let Some(after) = rest.strip_prefix('[') {
                bracket(after).ok_or("brackets must contain a number or a quoted name")?
            } else {
                break;
            };
            if step.0 == Step::Name(String::new()) {
                return Err("a name in the path is empty".to_owned());
            }
            steps.push(step.0);
            rest = step.1;
        }
        match steps.len() {
            0 => Err("the path is missing".to_owned()),
            1..=MAX_STEPS => Ok((Self(steps), rest)),
            _ => Err(format!("the path has more than {MAX_STEPS} steps")),
        }
    }

    /// The names on the path.
    pub(in crate::job) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|step| if let Step::Name(name) = step { Some(name.as_str()) } else { None })
    }

    /// Finds the value. The inner `None` means that it is missing, or is an object or an array; the outer one that the
    /// payload cannot be read.
    pub(super) fn find(&self, payload: &[u8], encoding: Option<Encoding>) -> Option<Option<Scalar>> {
        if payload.is_empty() {
            return Some(None);
        }
        let walk = Walk { path: &self.0 };
        match encoding? {
            Encoding::Json => {
                let mut decoder = serde_json::Deserializer::from_slice(payload);
                let found = walk.deserialize(&mut decoder).ok()?;
                decoder.end().ok()?;
                Some(found)
            }
            Encoding::Msgpack => {
                let (found, left) = read_msgpack(payload, walk).ok()?;
                (left == 0).then_some(found)
            }
            Encoding::Raw => None,
        }
    }
}

/// Reads what stands in brackets, after the first one.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if text.starts_with('"') {
        let mut names = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let name = names.next()?.ok()?;
        return Some((Step::Name(name), text.get(names.byte_offset()..)?.strip_prefix(']')?));
    }
    let (index, rest) = text.split_once(']')?;
    let is_number = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    Some((Step::Index(index.parse().ok().filter(|_| is_number)?), rest))
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Index(index) => write!(out, "[{index}]")?,
                Step::Name(name) if name.chars().any(|c| ends_name(c) || c == '.' || c == '[') => {
                    write!(out, "[{}]", serde_json::to_string(name).map_err(|_| fmt::Error)?)?;
                }
                Step::Name(name) => write!(out, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// Follows a path through a payload.
struct Walk<'p> {
    path: &'p [Step],
}

impl Walk<'_> {
    /// Returns a value that is neither an object nor an array, if the path ends at it.
    fn at(&self, value: impl FnOnce() -> Scalar) -> Option<Scalar> {
        self.path.is_empty().then(value)
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<Scalar>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<Scalar>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a payload")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(self.at(|| Scalar::Word("null")))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(self.at(|| Scalar::Word(if value { "true" } else { "false" })))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.at(|| Scalar::Integer(value.into())))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(self.at(|| Scalar::Integer(value.into())))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(self.at(|| Scalar::Float(value)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.at(|| Scalar::Text(value.to_owned())))
    }

    fn visit_bytes<E: de::Error>(self, value: &[u8]) -> Result<Self::Value, E> {
        Ok(self.at(|| Scalar::Text(String::from_utf8_lossy(value).into_owned())))
    }

    /// A type that MessagePack lets programs define has no text.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(IgnoredAny).map(|_| None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let wanted = self.path.split_first().and_then(|(step, rest)| match step {
            Step::Index(index) => Some((*index, rest)),
            Step::Name(name) => Some((name.parse().ok()?, rest)),
        });
        if let Some((index, rest)) = wanted {
            for _ in 0..index {
                if items.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(None);
                }
            }
            let found = items.next_element_seed(Walk { path: rest })?;
            while found.is_some() && items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(found.flatten());
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// If a name occurs several times, the last one counts, as for most readers of JSON.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let wanted = self.path.split_first().and_then(|(step, rest)| match step {
            Step::Name(name) => Some((name.as_str(), rest)),
            Step::Index(_) => None,
        });
        let mut found = None;
        while let Some(is_wanted) = members.next_key_seed(Named(wanted.map(|(name, _)| name)))? {
            match wanted.filter(|_| is_wanted) {
                Some((_, rest)) => found = members.next_value_seed(Walk { path: rest })?,
                None => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Tells whether a member of an object has this name. MessagePack allows numbers as names.
pub(in crate::job) struct Named<'p>(pub(in crate::job) Option<&'p str>);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Named<'_> {
    type Value = bool;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a member's name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<bool, E> {
        Ok(self.0 == Some(name))
    }

    fn visit_bytes<E: de::Error>(self, name: &[u8]) -> Result<bool, E> {
        Ok(self.0.map(str::as_bytes) == Some(name))
    }

    fn visit_u64<E: de::Error>(self, name: u64) -> Result<bool, E> {
        Ok(self.0.is_some_and(|wanted| wanted == name.to_string()))
    }

    fn visit_i64<E: de::Error>(self, name: i64) -> Result<bool, E> {
        Ok(self.0.is_some_and(|wanted| wanted == name.to_string()))
    }
}
