//! Reads what PHP's `serialize` writes, as JSON: of an object, its properties. No class is ever made.

use serde_json::{Map, Value};

/// A text that is nested deeper is not read: workers would not read the JSON either.
const MAX_DEPTH: usize = 100;

/// The classes in which Hyperf's queue wraps a job.
const ENVELOPES: &str = "Hyperf\\AsyncQueue\\";

/// A value, and its class if it is an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unserialized {
    pub(super) class: Option<String>,
    pub(super) value: Value,
}

/// Reads one value, and nothing after it.
///
/// # Errors
///
/// Says what cannot be read, and at which byte.
pub(super) fn unserialize(bytes: &[u8]) -> Result<Unserialized, String> {
    let mut reader = Reader { bytes, at: 0 };
    let read = reader.value(0).and_then(|value| {
        let is_all = reader.at == bytes.len();
        is_all.then_some(value).ok_or_else(|| "something follows the value".to_owned())
    });
    read.map_err(|why| {
        format!("is not what PHP's serialize writes, or cannot become JSON: {why} at byte {}", reader.at)
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Unserialized, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is nested deeper than {MAX_DEPTH}"));
        }
        let kind = *self.take(1)?.first().unwrap_or(&0);
        if kind == b'N' {
            self.skip(b";")?;
            return Ok(plain(Value::Null));
        }
        self.skip(b":")?;
        match kind {
            b'b' => Ok(plain(Value::Bool(self.until(b';')? == "1"))),
            b'i' => self.number::<i64>().map(|number| plain(number.into())),
            b'd' => {
                let number = self.number::<f64>()?;
                let number = serde_json::Number::from_f64(number).ok_or("JSON has no such number")?;
                Ok(plain(Value::Number(number)))
            }
            b's' => {
                let text = self.text()?;
                self.skip(b";")?;
                Ok(plain(Value::String(text.to_owned())))
            }
            b'a' => self.array(depth).map(plain),
            b'O' => self.object(depth),
            b'E' => self.case(),
            b'r' | b'R' => Err("it has a reference to another value".to_owned()),
            b'C' => Err("it has an object with a format of its own".to_owned()),
            other => Err(format!("{:?} is no kind of value", char::from(other))),
        }
    }

    /// An array is a list if its keys count from 0.
    fn array(&mut self, depth: usize) -> Result<Value, String> {
        let pairs = self.pairs(depth)?;
        let is_list = pairs.iter().enumerate().all(|(at, (name, _))| *name == at.to_string());
        Ok(if is_list {
            Value::Array(pairs.into_iter().map(|(_, read)| read.value).collect())
        } else {
            Value::Object(pairs.into_iter().map(|(name, read)| (name, read.value)).collect())
        })
    }

    fn object(&mut self, depth: usize) -> Result<Unserialized, String> {
        let class = self.text()?.to_owned();
        self.skip(b":")?;
        let mut members = Map::new();
        for (name, read) in self.pairs(depth)? {
            // Protected and private properties have the name of their class before their own, between NUL characters.
            let own = name.rsplit('\0').next().unwrap_or_default();
            if class.starts_with(ENVELOPES) && own == "job" && read.class.is_some() {
                return Ok(read);
            }
            members.insert(own.to_owned(), read.value);
        }
        Ok(Unserialized { class: Some(class), value: Value::Object(members) })
    }

    /// A case of an enumeration becomes its name.
    fn case(&mut self) -> Result<Unserialized, String> {
        let name = self.text()?.rsplit(':').next().unwrap_or_default().to_owned();
        self.skip(b";")?;
        Ok(plain(Value::String(name)))
    }

    fn pairs(&mut self, depth: usize) -> Result<Vec<(String, Unserialized)>, String> {
        let count: usize = self.until(b':')?.parse().map_err(|_| "a count is no number")?;
        self.skip(b"{")?;
        let mut pairs = Vec::new();
        for _ in 0..count {
            let name = match self.value(depth + 1)?.value {
                Value::String(name) => name,
                Value::Number(number) => number.to_string(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                    return Err("a key is neither a text nor a number".to_owned());
                }
            };
            pairs.push((name, self.value(depth + 1)?));
        }
        self.skip(b"}")?;
        Ok(pairs)
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        self.until(b';')?.parse().map_err(|_| "a number cannot be read".to_owned())
    }

    /// Reads `5:"hello"`.
    fn text(&mut self) -> Result<&'a str, String> {
        let length: usize = self.until(b':')?.parse().map_err(|_| "a length is no number")?;
        self.skip(b"\"")?;
        let text = self.take(length)?;
        self.skip(b"\"")?;
        std::str::from_utf8(text).map_err(|_| "a text is not UTF-8".to_owned())
    }

    fn until(&mut self, end: u8) -> Result<&'a str, String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        // No number is longer.
        let length = rest.iter().take(32).position(|byte| *byte == end).ok_or("it is cut off")?;
        let text = self.take(length)?;
        self.at += 1;
        std::str::from_utf8(text).map_err(|_| "a number is not UTF-8".to_owned())
    }

    fn skip(&mut self, wanted: &[u8]) -> Result<(), String> {
        let found = self.take(wanted.len())?;
        let is_wanted = found == wanted;
        is_wanted.then_some(()).ok_or_else(|| format!("{:?} is expected", String::from_utf8_lossy(wanted)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(length).ok_or("a length is too large")?;
        let taken = self.bytes.get(self.at..end).ok_or("it is cut off")?;
        self.at = end;
        Ok(taken)
    }
}

fn plain(value: Value) -> Unserialized {
    Unserialized { class: None, value }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        unserialize(text.as_bytes()).unwrap().value
    }

    #[test]
    fn values_become_json() {
        assert_eq!(value("N;"), Value::Null);
        assert_eq!(value("b:1;"), json!(true));
        assert_eq!(value("i:-7;"), json!(-7));
        assert_eq!(value("d:0.5;"), json!(0.5));
        assert_eq!(value("s:3:\"a\"b\";"), json!("a\"b"));
        assert_eq!(value("s:2:\"ä\";"), json!("ä"));
        assert_eq!(value("a:2:{i:0;s:1:\"a\";i:1;N;}"), json!(["a", null]));
        assert_eq!(value("a:2:{i:1;i:5;s:1:\"k\";a:0:{}}"), json!({"1": 5, "k": []}));
        assert_eq!(value("E:14:\"App\\Color:Blue\";"), json!("Blue"));
    }

    #[test]
    fn an_object_is_its_properties_whatever_their_visibility() {
        let text =
            "O:8:\"App\\Mail\":3:{s:2:\"to\";s:3:\"ann\";s:5:\"\0*\0id\";i:7;s:14:\"\0App\\Mail\0body\";N;}";
        let read = unserialize(text.as_bytes()).unwrap();
        assert_eq!(read.class.as_deref(), Some("App\\Mail"));
        assert_eq!(read.value, json!({"to": "ann", "id": 7, "body": null}));
    }

    #[test]
    fn a_message_of_hyperf_is_its_job() {
        let job = "O:7:\"App\\Job\":1:{s:6:\"params\";a:0:{}}";
        let text =
            format!("O:28:\"Hyperf\\AsyncQueue\\JobMessage\":2:{{s:8:\"attempts\";i:1;s:3:\"job\";{job}}}");
        let read = unserialize(text.as_bytes()).unwrap();
        assert_eq!((read.class.as_deref(), read.value), (Some("App\\Job"), json!({"params": []})));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, why) in [
            ("", "cut off"),
            ("s:9:\"a\";", "cut off"),
            ("i:1;i:2;", "follows"),
            ("a:1:{i:0;R:1;}", "reference"),
            ("C:1:\"A\":0:{}", "format of its own"),
            ("d:INF;", "no such number"),
            ("a:1:{N;N;}", "key"),
            ("x:1;", "no kind"),
        ] {
            let error = unserialize(text.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let deep = format!("{}N;{}", "a:1:{i:0;".repeat(200), "}".repeat(200));
        assert!(unserialize(deep.as_bytes()).unwrap_err().contains("deeper"));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[aOsibdN:;{}\"0-9]{0,80}") {
            drop(unserialize(&bytes));
            drop(unserialize(text.as_bytes()));
        }
    }
}
