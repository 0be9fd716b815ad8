//! Conditions about a payload's field or a header, such as `payload.customer=9`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::path::{Path, Scalar, ends_name};
use super::{Candidate, Filter, Match};

/// What a valid condition looks like.
const RULE: &str =
    "it must be like payload.customer=9, payload.items[0].sku!=x, payload.total>100 or h.tenant~acme";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison {
    subject: Subject,
    operator: Operator,
    wanted: String,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Payload(Path),
    /// Without the `h.`.
    Header(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    Contains,
}

impl Operator {
    /// Those with two characters first, because others begin like them.
    const ALL: [Self; 7] =
        [Self::Unequal, Self::AtMost, Self::AtLeast, Self::Equal, Self::Less, Self::More, Self::Contains];

    fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
            Self::Contains => "~",
        }
    }
}

impl Comparison {
    /// The names of the fields at which it looks, from the outermost to the innermost, or that of the header.
    pub(super) fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.subject {
            Subject::Payload(path) => Box::new(path.names()),
            Subject::Header(name) => Box::new(std::iter::once(name.as_str())),
        }
    }
}

impl FromStr for Comparison {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (subject, rest) = if let Some(rest) = text.strip_prefix("payload") {
            let (path, rest) = Path::parse(rest).map_err(|why| format!("{why}; {RULE}"))?;
            (Subject::Payload(path), rest)
        } else if let Some(rest) = text.strip_prefix("h.") {
            let (name, rest) = rest.split_at(rest.find(ends_name).unwrap_or(rest.len()));
            if name.is_empty() {
                return Err(format!("the header's name is missing; {RULE}"));
            }
            (Subject::Header(name.to_owned()), rest)
        } else {
            return Err(RULE.to_owned());
        };
        let found = rest.trim_start();
        let operator = Operator::ALL.into_iter().find(|operator| found.starts_with(operator.as_str()));
        let operator = operator.ok_or_else(|| format!("the operator is missing; {RULE}"))?;
        let wanted = &found[operator.as_str().len()..];
        // With a space before the operator, the one after it is not part of the value either.
        let wanted = if found.len() < rest.len() { wanted.trim_start() } else { wanted };
        if wanted.trim().is_empty() {
            return Err(format!("the value is missing; {RULE}"));
        }
        if wanted.starts_with(['=', '~']) {
            return Err(format!("{}{} is not an operator; {RULE}", operator.as_str(), &wanted[..1]));
        }
        Ok(Self { subject, operator, wanted: wanted.to_owned() })
    }
}

/// Writes the comparison as a person would type it.
impl fmt::Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Payload(path) => write!(out, "payload{path}")?,
            Subject::Header(name) => write!(out, "h.{name}")?,
        }
        write!(out, "{}{}", self.operator.as_str(), self.wanted)
    }
}

impl Comparison {
    /// Returns whether it holds, or why that cannot be decided.
    pub(super) fn holds(&self, candidate: &Candidate<'_>) -> Result<bool, Match> {
        let mut found = match &self.subject {
            Subject::Header(name) => {
                let value = candidate.field(&format!("h.{name}"))?;
                value.map(|value| Scalar::Text(String::from_utf8_lossy(value).into_owned()))
            }
            Subject::Payload(path) => {
                let (payload, encoding) = candidate.payload()?;
                if payload.len() > Filter::MAX_PAYLOAD_BYTES {
                    return Err(Match::TooLarge);
                }
                path.find(payload, encoding).ok_or(Match::Unreadable)?
            }
        };
        if let Some(Scalar::Text(text)) = &mut found {
            *text = candidate.shown_text(std::mem::take(text));
        }
        Ok(self.compare(found.as_ref()))
    }

    fn compare(&self, found: Option<&Scalar>) -> bool {
        let wanted = self.wanted.as_str();
        let ordering = || found.and_then(|found| compare(found, wanted));
        match self.operator {
            Operator::Equal => found.is_some_and(|found| equals(found, wanted)),
            Operator::Unequal => !found.is_some_and(|found| equals(found, wanted)),
            Operator::Less => ordering() == Some(Ordering::Less),
            Operator::AtMost => matches!(ordering(), Some(Ordering::Less | Ordering::Equal)),
            Operator::More => ordering() == Some(Ordering::Greater),
            Operator::AtLeast => matches!(ordering(), Some(Ordering::Greater | Ordering::Equal)),
            Operator::Contains => found.is_some_and(|found| found.to_string().contains(wanted)),
        }
    }
}

fn equals(found: &Scalar, wanted: &str) -> bool {
    match found {
        Scalar::Float(found) => decimal(wanted).is_some_and(|wanted| found.total_cmp(&wanted).is_eq()),
        Scalar::Text(_) | Scalar::Integer(_) | Scalar::Word(_) => found.to_string() == wanted,
    }
}

/// Compares numbers if the wanted value is one, and texts otherwise.
fn compare(found: &Scalar, wanted: &str) -> Option<Ordering> {
    let Some(number) = decimal(wanted) else {
        return match found {
            Scalar::Text(found) => Some(found.as_str().cmp(wanted)),
            Scalar::Integer(_) | Scalar::Float(_) | Scalar::Word(_) => None,
        };
    };
    let found = found.to_string();
    // As floating point numbers, large ids would equal their neighbors.
    match (found.parse::<i128>(), wanted.parse::<i128>()) {
        (Ok(found), Ok(wanted)) => Some(found.cmp(&wanted)),
        _ => decimal(&found)?.partial_cmp(&number),
    }
}

fn decimal(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}
