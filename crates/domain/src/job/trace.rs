//! The place of a job in a distributed trace: the W3C trace context, as the field `traceparent` has it.

use std::fmt;

/// A W3C trace context: the trace, the span in it and whether it is sampled, as the text of a `traceparent` of version 00.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext([u8; Self::BYTES]);

/// The positions of the dashes in the text.
const DASHES: [usize; 3] = [2, 35, 52];

impl TraceContext {
    /// The length of the text in bytes.
    pub const BYTES: usize = 55;

    /// The flag bits that are passed on: sampled and random.
    const KNOWN_FLAGS: u8 = 0b11;

    /// Creates a context from its parts; `None` if an id is zero.
    pub fn new(trace_id: u128, span_id: u64, flags: u8) -> Option<Self> {
        let flags = flags & Self::KNOWN_FLAGS;
        let text = format!("00-{trace_id:032x}-{span_id:016x}-{flags:02x}");
        let text = text.into_bytes().try_into().ok()?;
        (trace_id != 0 && span_id != 0).then_some(Self(text))
    }

    /// Reads a `traceparent` strictly by the standard: lower case only, no id of zeros, and nothing after the flags in
    /// version 00. Whatever later versions have after the flags is dropped. Returns `None` for anything else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(Self::BYTES)?;
        let (version, flags) = (hex(head, 0..2)?, hex(head, 53..55)?);
        let ends = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|next| *next == b'-'),
        };
        let dashed = DASHES.iter().all(|at| head[*at] == b'-');
        let (trace_id, span_id) = (hex(head, 3..35)?, u64::try_from(hex(head, 36..52)?).ok()?);
        if !(ends && dashed) {
            return None;
        }
        Self::new(trace_id, span_id, u8::try_from(flags).ok()?)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits and dashes are text")
    }

    /// Returns the trace id.
    pub fn trace_id(&self) -> u128 {
        self.part(3..35)
    }

    /// Returns the id of the span in the trace.
    pub fn span_id(&self) -> u64 {
        u64::try_from(self.part(36..52)).expect("16 digits fit 64 bits")
    }

    /// Returns the flags.
    pub fn flags(&self) -> u8 {
        u8::try_from(self.part(53..55)).expect("2 digits fit 8 bits")
    }

    /// Returns true if the trace is being recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags() & 1 == 1
    }

    fn part(&self, at: std::ops::Range<usize>) -> u128 {
        hex(&self.0, at).expect("it consists of hexadecimal digits")
    }
}

fn hex(text: &[u8], at: std::ops::Range<usize>) -> Option<u128> {
    let digits = &text[at];
    let lower = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let digits = std::str::from_utf8(digits).ok().filter(|_| lower)?;
    u128::from_str_radix(digits, 16).ok()
}

impl fmt::Display for TraceContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(text: &str) -> Option<String> {
        TraceContext::parse(text.as_bytes()).map(|context| context.to_string())
    }

    #[test]
    fn the_standards_example_is_read_part_by_part() {
        let context = TraceContext::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(context.trace_id(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((context.span_id(), context.is_sampled()), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(read(GOOD).as_deref(), Some(GOOD));
        assert!(!TraceContext::parse(GOOD.replace("-01", "-00").as_bytes()).unwrap().is_sampled());
    }

    #[test]
    fn an_invalid_traceparent_is_none() {
        let broken = [
            String::new(),
            "00-ab-cd-01".to_owned(),
            GOOD.to_uppercase(),
            GOOD.replace("0af7", "0aF7"),
            GOOD.replace("00-", "ff-"),
            GOOD.replace("00-", "0x-"),
            GOOD.replacen('-', "_", 1),
            GOOD.replace("-01", "-0g"),
            GOOD.replace("-01", "-+1"),
            format!("{GOOD}-more"),
            format!("{GOOD} "),
            format!(" {GOOD}"),
            format!("01{}x", &GOOD[2..]),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16)),
        ];
        for text in broken {
            assert_eq!(read(&text), None, "{text:?}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for later in [format!("01{}", &GOOD[2..]), format!("cc{}-what-the-future-holds", &GOOD[2..])] {
            assert_eq!(read(&later).as_deref(), Some(GOOD));
        }
        assert_eq!(read(&GOOD.replace("-01", "-fd")).as_deref(), Some(GOOD));
    }

    proptest! {
        #[test]
        fn parts_come_back(trace_id in 1..u128::MAX, span_id in 1..u64::MAX, flags in 0..4_u8) {
            let context = TraceContext::new(trace_id, span_id, flags).unwrap();
            prop_assert_eq!((context.trace_id(), context.span_id(), context.flags()), (trace_id, span_id, flags));
            prop_assert_eq!(TraceContext::parse(context.as_str().as_bytes()), Some(context));
        }

        #[test]
        fn reading_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ignored = TraceContext::parse(&bytes).is_some();
        }
    }
}
