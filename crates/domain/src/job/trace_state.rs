//! What tracing systems carry beside the place of a job in a trace: the W3C `tracestate`, which travels as a header of the job.

use super::{Envelope, TraceContext};

/// A W3C `tracestate` that keeps the standard: at most 512 characters and 32 members, each with a key of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceState(Box<str>);

impl TraceState {
    /// The name of the job's header.
    pub const HEADER: &str = "tracestate";

    /// The name of the job's field: a header, so that a worker of any version gives it to the handler.
    pub const FIELD: &str = "h.tracestate";

    /// The most characters.
    pub const MAX_BYTES: usize = 512;

    /// The most members.
    pub const MAX_MEMBERS: usize = 32;

    /// Reads a `tracestate`. Returns `None` for one that is malformed, has more than the most characters or members, or
    /// has none: the standard says to drop it as a whole.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim_matches(BLANK);
        is_valid(text).then(|| Self(text.into()))
    }

    /// Returns what a job carries. Without a `traceparent` that keeps the standard, it means nothing.
    pub fn carried(envelope: &Envelope) -> Option<&str> {
        envelope.get(b"traceparent").and_then(TraceContext::parse)?;
        let text = std::str::from_utf8(envelope.get(Self::FIELD.as_bytes())?).ok()?.trim_matches(BLANK);
        is_valid(text).then_some(text)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What may stand around a member.
const BLANK: [char; 2] = [' ', '\t'];

fn is_valid(text: &str) -> bool {
    if text.is_empty() || text.len() > TraceState::MAX_BYTES {
        return false;
    }
    let mut keys = Vec::new();
    for member in text.split(',').map(|member| member.trim_matches(BLANK)) {
        // The standard allows empty members.
        let Some((key, value)) = member.split_once('=') else {
            if member.is_empty() {
                continue;
            }
            return false;
        };
        if keys.len() == TraceState::MAX_MEMBERS || keys.contains(&key) || !is_key(key) || !is_value(value) {
            return false;
        }
        keys.push(key);
    }
    !keys.is_empty()
}

fn is_key(key: &str) -> bool {
    let may_begin = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let may_follow = |byte: u8| may_begin(&byte) || b"_-*/@".contains(&byte);
    key.len() <= 256 && key.as_bytes().first().is_some_and(may_begin) && key.bytes().all(may_follow)
}

fn is_value(value: &str) -> bool {
    let is_seen = |byte: u8| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
    (1..=256).contains(&value.len()) && value.bytes().all(is_seen) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<String> {
        TraceState::parse(text.as_bytes()).map(|state| state.as_str().to_owned())
    }

    #[test]
    fn what_keeps_the_standard_stays_as_it_is() {
        for text in
            ["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a=1 , ,b=2", "9tenant@vendor=x y/z", "a-_*/=~"]
        {
            assert_eq!(read(text).as_deref(), Some(text));
        }
        assert_eq!(read(" \ta=1\t").as_deref(), Some("a=1"));
    }

    #[test]
    fn what_breaks_the_standard_is_dropped_as_a_whole() {
        for text in [
            "",
            ",",
            " ",
            "a",
            "a=",
            "=1",
            "A=1",
            "a=1,b",
            "a=1,a=2",
            "a=b=c",
            "a=ü",
            "a=\n",
            "_a=1",
            "a=1\r\nx: y",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(TraceState::parse(b"a=\xff"), None);
    }

    #[test]
    fn it_has_at_most_512_characters_and_32_members() {
        let members = |count: usize| (0..count).map(|nth| format!("k{nth}=1")).collect::<Vec<_>>().join(",");
        assert!(read(&members(32)).is_some() && read(&members(33)).is_none());
        let long = |bytes: usize| format!("a={},b={}", "x".repeat(250), "y".repeat(bytes - 255));
        assert!(
            read(&long(511)).is_some() && read(&long(512)).is_none(),
            "a value has at most 256 characters"
        );
        let long = |bytes: usize| format!("a={},b={},c=1", "x".repeat(250), "y".repeat(bytes - 259));
        assert_eq!((long(512).len(), long(513).len()), (512, 513));
        assert!(read(&long(512)).is_some() && read(&long(513)).is_none());
    }

    #[test]
    fn without_a_valid_traceparent_it_means_nothing() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let of = |parent: &str, state: &str| {
            let fields = [("type", "a"), ("traceparent", parent), (TraceState::FIELD, state)];
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            TraceState::carried(&Envelope::new(fields)).map(str::to_owned)
        };
        assert_eq!(of(parent, "a=1").as_deref(), Some("a=1"));
        assert_eq!((of("00-ab-cd-01", "a=1"), of(parent, "a=1,")), (None, Some("a=1,".to_owned())));
        assert_eq!(of(parent, "a="), None);
    }

    proptest! {
        #[test]
        fn reading_any_bytes_never_panics_and_reading_again_changes_nothing(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Some(state) = TraceState::parse(&bytes) {
                prop_assert_eq!(TraceState::parse(state.as_str().as_bytes()), Some(state));
            }
        }
    }
}
