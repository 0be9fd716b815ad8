//! The rules of a type by the class of an error: `[types."mail.send".errors]`.

use super::sections::TypeSection;
use crate::job::OutOfBounds;
use streamfleet::handlers;

/// Returns why the rules of a type are never asked, if that is so.
pub(super) fn useless(section: &TypeSection) -> Option<OutOfBounds> {
    let mut handlers = section.handlers().peekable();
    let is_useless = !section.policy.errors.is_empty()
        && handlers.peek().is_some()
        && !handlers.any(|(_, handler)| matches!(handler, handlers::Config::Pool(_)));
    let reason = "has no effect, because only the programs of a pool report the classes of errors; \
                  exec and http have rules by exit code, status and text";
    is_useless.then(|| OutOfBounds::new("errors", reason))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use crate::config::{Invalid, Sources};
    use crate::job::{ErrorRules, RuleAction};

    /// Reads files, each of which overrides the ones before it.
    fn read(files: &[&str]) -> Result<crate::config::Effective, String> {
        let files = files.iter().map(|toml| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(toml.as_bytes()).unwrap();
            file
        });
        let files: Vec<_> = files.collect();
        let sources = Sources::default().files(files.iter().map(|file| file.path()));
        sources.read().map_err(|invalid: Invalid| invalid.to_string())
    }

    const POOL: &str = "[pools.php]\ncommand = [\"php\"]\n[types.a]\nhandler.pool = \"php\"\n";

    #[test]
    fn classes_are_read_as_they_are_written() {
        let rules = "[types.a.errors]\nValueError = \"fatal\"\n'App\\Gone' = \"drop\"\n\"a.b.*\" = { retry_after = \"30s\" }\n";
        let read = read(&[&format!("{POOL}{rules}")]).unwrap();
        let errors = &read.config.types["a"].policy.errors;
        assert_eq!(errors.decide(&["App\\Gone"]), Some(("App\\Gone", RuleAction::Drop)));
        let pause = RuleAction::RetryAfter(std::time::Duration::from_secs(30));
        assert_eq!(errors.decide(&["a.b.C", "ValueError"]), Some(("a.b.*", pause)));
    }

    #[test]
    fn a_later_file_replaces_a_rule_as_a_whole() {
        let first = format!(
            "{POOL}[types.a.errors]\nA = {{ retry_after = \"30s\" }}\nB = \"drop\"\n[pools.php.errors]\nA = \"drop\"\n"
        );
        let second =
            "[types.a.errors]\nA = { snooze = \"1m\" }\n[pools.php.errors]\nA = { snooze = \"1m\" }\n";
        let read = read(&[&first, second]).unwrap();
        let snooze = RuleAction::Snooze(std::time::Duration::from_secs(60));
        let of_type = ErrorRules::new([("A", snooze), ("B", RuleAction::Drop)]);
        assert_eq!(read.config.types["a"].policy.errors, of_type);
        assert_eq!(read.config.pools["php"].errors, ErrorRules::new([("A", snooze)]));
    }

    #[test]
    fn mistakes_are_reported_with_their_keys_and_lines() {
        let wrong = |toml: &str| read(&[&format!("{POOL}{toml}")]).unwrap_err();
        let told = wrong("[types.a.errors]\nValueError = \"fatl\"\n");
        assert!(told.contains("types.a.errors.ValueError: unknown value; did you mean \"fatal\"?"), "{told}");
        let told = wrong("[types.a.errors]\n'\\App\\Gone' = \"drop\"\n");
        assert!(told.contains(r#"did you mean "App\\Gone"? ("#) && told.contains(":6)"), "{told}");
        let told = wrong("[pools.php.errors]\n\"a b\" = \"drop\"\n");
        assert!(told.contains(r#"pools.php.errors: "a b": can never match"#), "{told}");
        let told =
            read(&["[types.a]\nhandler.exec.command = [\"true\"]\nerrors.A = \"drop\"\n"]).unwrap_err();
        assert!(
            told.contains("types.a.errors: has no effect, because only the programs of a pool"),
            "{told}"
        );
    }

    #[test]
    fn the_rules_of_a_type_with_steps_are_for_those_in_pools() {
        let steps = |handler: &str| {
            format!(
                "[types.b.steps.x]\nkind = \"auto\"\nhandler = {handler}\n[types.b.errors]\nA = \"drop\"\n"
            )
        };
        assert!(read(&[POOL, &steps("{ pool = \"php\" }")]).is_ok());
        assert!(read(&[POOL, &steps("\"noop\"")]).is_err());
    }
}
