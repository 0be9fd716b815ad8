//! Assembles a script from its own source and the parts of the prelude that it uses.

use std::collections::HashSet;

/// The functions that scripts share, one file for each subject. A part uses only parts before it, in whatever file.
pub(crate) const PRELUDE: &str = concat!(
    include_str!("prelude/keys.lua"),
    "\n",
    include_str!("prelude/time.lua"),
    "\n",
    include_str!("prelude/fields.lua"),
    "\n",
    include_str!("prelude/entries.lua"),
    "\n",
    include_str!("prelude/steps.lua"),
    "\n",
    include_str!("prelude/records.lua"),
    "\n",
    include_str!("prelude/offloaded.lua"),
    "\n",
    include_str!("prelude/delayed.lua"),
    "\n",
    include_str!("prelude/journal.lua"),
    "\n",
    include_str!("prelude/groups.lua"),
    "\n",
    include_str!("prelude/letters.lua"),
    "\n",
    include_str!("prelude/endings.lua"),
    "\n",
    include_str!("prelude/calls.lua"),
    "\n",
    include_str!("prelude/tasks.lua"),
    "\n",
    include_str!("prelude/submission.lua"),
    "\n",
    include_str!("prelude/waitlists.lua"),
    "\n",
    include_str!("prelude/breakers.lua"),
    "\n",
    include_str!("prelude/gates.lua"),
    "\n",
    include_str!("prelude/audit.lua"),
    "\n",
    include_str!("prelude/figures.lua"),
);

/// Puts the parts of the prelude that a script uses, directly or not, before the script, because Redis creates every
/// function again on every call. The prelude's parts are separated by blank lines. Each defines one local name, except the
/// first part of each file, which is a comment.
pub(crate) fn assemble(prelude: &str, script: &str) -> String {
    let mut mentioned: HashSet<&str> = names(script).collect();
    let mut kept = vec![script];
    // A part uses only parts before it, so one pass from the end finds all.
    for part in prelude.rsplit("\n\n") {
        if defined(part).is_some_and(|name| mentioned.contains(name)) {
            mentioned.extend(names(part));
            kept.push(part);
        }
    }
    kept.reverse();
    kept.join("\n\n")
}

/// The name that a part of the prelude defines.
fn defined(part: &str) -> Option<&str> {
    let line = part.lines().find_map(|line| line.strip_prefix("local "))?;
    let name = line.strip_prefix("function ").unwrap_or(line);
    name.split(|c: char| !is_name(c)).next()
}

/// The words of a text, except in comments that have a line of their own.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
    code.flat_map(|line| line.split(|c: char| !is_name(c)))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_gets_what_it_uses_of_the_prelude_and_nothing_else() {
        let prelude =
            "-- a\nlocal function a() end\n\n-- b uses a\nlocal function b() a() end\n\nlocal C = 1";
        assert_eq!(assemble(prelude, "-- b\nreturn 1"), "-- b\nreturn 1");
        assert_eq!(assemble(prelude, "return C"), "local C = 1\n\nreturn C");
        let both = "-- a\nlocal function a() end\n\n-- b uses a\nlocal function b() a() end\n\nb()";
        assert_eq!(assemble(prelude, "b()"), both);
    }

    #[test]
    fn every_part_of_the_prelude_defines_one_name() {
        let defines = |part: &str| part.lines().filter(|line| line.starts_with("local ")).count();
        let is_header = |part: &str| part.lines().all(|line| line.starts_with("--"));
        for part in PRELUDE.split("\n\n").filter(|part| !is_header(part)) {
            assert_eq!(defines(part), 1, "{part}");
        }
    }

    #[test]
    fn no_name_of_the_prelude_is_defined_twice() {
        let mut known = HashSet::new();
        for name in PRELUDE.split("\n\n").filter_map(defined) {
            assert!(known.insert(name), "{name}");
        }
    }
}
