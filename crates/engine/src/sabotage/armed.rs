//! The bug that this process carries, and the script lines that some bugs replace.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::BUGS;
use super::Sabotage::{self, *};

/// The variable that names the bug.
const VARIABLE: &str = "STREAMFLEET_SABOTAGE";

static ACTIVE: LazyLock<Option<Sabotage>> = LazyLock::new(|| {
    #[expect(clippy::disallowed_methods, reason = "no configuration file may set it")]
    let name = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
    let bug = BUGS.iter().find(|(_, known, _)| *known == name);
    let (bug, name, about) = bug.unwrap_or_else(|| panic!("{VARIABLE}: unknown bug {name}"));
    tracing::error!(bug = name, about = about.trim(), "this process carries a bug on purpose");
    Some(*bug)
});

/// Returns the names of all bugs, each with its description.
pub fn bugs() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUGS.iter().map(|(_, name, about)| (*name, about.trim()))
}

pub fn is(bug: Sabotage) -> bool {
    *ACTIVE == Some(bug)
}

pub fn sabotaged(script: &str, source: &'static str) -> Cow<'static, str> {
    EDITS
        .iter()
        .filter(|edit| edit.script == script && is(edit.bug))
        .fold(Cow::Borrowed(source), |source, edit| Cow::Owned(edit.applied_to(&source)))
}

/// A line of a script, and its replacement.
struct Edit {
    bug: Sabotage,
    script: &'static str,
    line: &'static str,
    instead: &'static str,
}

impl Edit {
    /// Returns the script with the line replaced. Panics unless the script has the line exactly once: a bug that was
    /// not applied proves nothing.
    fn applied_to(&self, source: &str) -> String {
        let Self { bug, script, line, instead } = self;
        let found = source.lines().filter(|own| own.trim() == *line).count();
        assert_eq!(found, 1, "{bug:?}: {script} has this line {found} times instead of once: {line}");
        let lines = source.lines().map(|own| if own.trim() == *line { *instead } else { own });
        lines.collect::<Vec<_>>().join("\n")
    }
}

const fn edit(bug: Sabotage, script: &'static str, line: &'static str, instead: &'static str) -> Edit {
    Edit { bug, script, line, instead }
}

/// Replaces a line that a bug removes: an empty line would end a part of the prelude.
const GONE: &str = "--";

const EDITS: &[Edit] = &[
    edit(
        FenceIgnored,
        "prelude",
        "local done, answer = pcall(one, held and held[entry] == true, entry, generation, key, at + 3, last)",
        "local done, answer = pcall(one, true, entry, generation, key, at + 3, last)",
    ),
    edit(
        PendingForgotten,
        "reap",
        "if #redis.call('XPENDING', stream, 'fleet', '-', '+', 1, consumer) > 0 then",
        "if false then",
    ),
    edit(
        PendingForgotten,
        "reclaim",
        "redis.call('XCLAIM', stream, 'fleet', consumer, 0, entry, 'IDLE', silence_ms, 'FORCE', 'JUSTID')",
        GONE,
    ),
    edit(
        ClaimedFromHeadOnly,
        "stale",
        "local found = redis.call('XPENDING', stream, 'fleet', 'IDLE', silence_ms, '-', '+', 1)[1]",
        "local found = redis.call('XPENDING', stream, 'fleet', '-', '+', 1)[1]",
    ),
    edit(
        ClaimedFromHeadOnly,
        "stale",
        "first = found and found[1] or ''",
        "first = found and found[3] >= tonumber(silence_ms) and found[1] or ''",
    ),
    edit(
        ClockTrusted,
        "claim",
        "if now < tonumber(from_ms) or now > tonumber(to_ms) then return { 0 } end",
        GONE,
    ),
    edit(
        DeletedFirst,
        "prelude",
        "if is_repeated == '0' or not is_done(record, generation) then return end",
        "redis.call('XACK', stream, 'fleet', entry) redis.call('XDEL', stream, entry) if is_repeated == '0' or not is_done(record, generation) then return end",
    ),
    edit(AckedNotDeleted, "prelude", "redis.call('XDEL', stream, unpack(ended))", GONE),
    edit(
        AckedNotDeleted,
        "reclaim",
        "redis.call('XCLAIM', stream, 'fleet', consumer, 0, entry, 'IDLE', silence_ms, 'FORCE', 'JUSTID')",
        GONE,
    ),
    edit(
        BuriedWithoutLetter,
        "bury",
        "local letter_id, group = write_letter(dead, letter, fingerprint, 1, now, job_type, reason, error_text, record)",
        "local letter_id, group = '1-0', ''",
    ),
    edit(BuriedAndKept, "bury", "return 1, 'end'", "return 1, 'keep'"),
    edit(LetterKeptByReplay, "prelude", "remove_letter(dead, letter)", GONE),
    edit(PromotedEarly, "promote", "local now = now_ms()", "local now = now_ms() + 1500"),
    edit(
        BatchAbortedByOne,
        "promote",
        "local added = add_packed(packed, count, from)",
        "local added = cmsgpack.unpack(packed) and add_packed(packed, count, from)",
    ),
    edit(RetryOverwritten, "defer", "if not taken[id] then return id end", "if id then return id end"),
    edit(
        RecordOfAnotherDeleted,
        "prelude",
        "if is_owner then return expire(record, now, retention, ledger, facts) end",
        "if is_owner then return expire(record, now, retention, ledger, facts) end redis.call('DEL', record)",
    ),
    edit(LedgerOfAnotherDeleted, "prelude", "redis.call('PEXPIRE', ledger, ms)", "redis.call('DEL', ledger)"),
    edit(
        CancelledById,
        "cancel",
        "redis.call('ZADD', cancels, now, generation)",
        "redis.call('ZADD', cancels, now, generation, now, id)",
    ),
    edit(
        CancelledById,
        "begin",
        "if has_requests and is_unwanted(cancels, generation) then return 5 end",
        "if has_requests and (is_unwanted(cancels, generation) or is_unwanted(cancels, id)) then return 5 end",
    ),
    edit(
        IdAcceptedAgain,
        "accept",
        "if known then return 'known', shown_state(known, record, lanes) end",
        GONE,
    ),
    edit(
        IdAcceptedAgain,
        "submit",
        "if known then return 'known', job.id, shown_state(known, job.record, lanes) end",
        GONE,
    ),
    edit(
        LockKeptByDead,
        "prelude",
        "if is_owner and redis.pcall('GET', lock) == id then redis.call('DEL', lock) end",
        "if list[1] ~= 'dead' and redis.pcall('GET', lock) == id then redis.call('DEL', lock) end",
    ),
    edit(
        LockKeptByDead,
        "prelude",
        "return not has_ended(state)",
        "return state ~= 'done' and state ~= 'cancelled'",
    ),
    edit(
        CallbackEachTime,
        "prelude",
        "is_first = redis.call('HSETNX', record, 'called:' .. list[2] .. ':' .. how, 1) == 1",
        "is_first = true",
    ),
    edit(
        TickUnguarded,
        "tick",
        "if redis.call('HGET', ticks, name) ~= read then return receipt_of(receipt) or { 0, 0 } end",
        GONE,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_a_bug_replaces_occurs_once_in_its_script() {
        let mut scripts = crate::client::script::sources();
        scripts.insert("prelude".to_owned(), crate::client::assemble::PRELUDE.to_owned());
        for edit in EDITS {
            let source = &scripts[edit.script];
            assert_ne!(edit.applied_to(source), source.trim_end(), "{:?}", edit.bug);
        }
    }

    #[test]
    fn every_bug_has_a_unique_name_and_a_description() {
        let names: std::collections::BTreeSet<_> = bugs().map(|(name, _)| name).collect();
        assert_eq!(names.len(), BUGS.len());
        assert!(bugs().all(|(_, about)| about.ends_with('.')));
    }

    #[test]
    fn a_process_without_the_variable_carries_no_bug() {
        assert!(BUGS.iter().all(|(bug, ..)| !is(*bug)));
        assert!(EDITS.iter().all(|edit| matches!(sabotaged(edit.script, "x"), Cow::Borrowed("x"))));
    }
}
