//! What `config check` and a worker say about schemas that cannot be used.

use std::fs;
use std::path::Path;
use std::time::Duration;

use harness::process::{Launch, Output};
use harness::schema::TEXT;

const SOON: Duration = Duration::from_secs(30);

/// Writes these files, the last of which is the configuration, and runs a command with it.
fn run(folder: &Path, files: &[(&str, &str)], args: &[&str]) -> Output {
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    let config = folder.join(files.last().unwrap().0);
    Launch::new(&[&["--config", config.to_str().unwrap()], args].concat()).output(SOON)
}

/// Returns what `config check` prints, with `[folder]` for the folder.
fn problems(files: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), files, &["config", "check"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    output.stdout.replace(folder.path().to_str().unwrap(), "[folder]")
}

fn of_type(name: &str, file: &str) -> String {
    format!("[types.{name}]\nhandler = \"noop\"\npayload_schema = \"{file}\"\n")
}

#[test]
fn a_schema_beside_the_configuration_is_valid_and_shown_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let toml = of_type("a", "a.json");
    let files = [("a.json", TEXT), ("c.toml", toml.as_str())];
    let output = run(folder.path(), &files, &["config", "check"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "the configuration is valid\n"));
    let shown = run(folder.path(), &files, &["config", "show", "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let path = folder.path().join("a.json");
    assert_eq!(shown["types"]["a"]["payload_schema"], path.to_str().unwrap());
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_its_key_and_line() {
    let toml =
        format!("{}{}{}", of_type("a", "missing.json"), of_type("b", "broken.json"), of_type("c", "."));
    insta::assert_snapshot!(problems(&[("broken.json", "{oops"), ("c.toml", &toml)]), @r"
    the configuration has 3 problems:
      types.a.payload_schema: [folder]/missing.json: cannot be read: No such file or directory (os error 2) ([folder]/c.toml:3)
      types.b.payload_schema: [folder]/broken.json: is not JSON: key must be a string at line 1 column 2 ([folder]/c.toml:6)
      types.c.payload_schema: [folder]/.: is not a file ([folder]/c.toml:9)
    ");
}

#[test]
fn what_is_not_a_schema_is_named_with_its_place_in_it() {
    let odd = r#"{"properties": {"to": {"type": "strin"}}}"#;
    let found = problems(&[("odd.json", odd), ("c.toml", &of_type("a", "odd.json"))]);
    assert!(
        found.contains("types.a.payload_schema: [folder]/odd.json: /properties/to/type: \"strin\" is not "),
        "{found}"
    );
    let slow = r#"{"properties": {"to": {"pattern": "(a)\\1"}}}"#;
    let found = problems(&[("slow.json", slow), ("c.toml", &of_type("a", "slow.json"))]);
    assert!(
        found.contains("[folder]/slow.json: /properties/to/pattern: the pattern is not valid"),
        "{found}"
    );
    let large = format!("{{\"title\": \"{}\"}}", "x".repeat(1024 * 1024));
    let found = problems(&[("large.json", &large), ("c.toml", &of_type("a", "large.json"))]);
    assert!(found.contains("[folder]/large.json: has more than 1048576 bytes"), "{found}");
}

#[test]
fn nothing_outside_of_the_file_is_read_or_fetched() {
    for target in ["http://127.0.0.1:1/item.json", "b.json", "file:///etc/hostname"] {
        let text = format!("{{\"items\": {{\"$ref\": \"{target}\"}}}}");
        let found = problems(&[("b.json", TEXT), ("a.json", &text), ("c.toml", &of_type("a", "a.json"))]);
        assert!(found.contains("[folder]/a.json: /items/$ref: refers to "), "{found}");
        assert!(found.contains(target) && found.contains("nothing is fetched"), "{found}");
    }
    let local = r##"{"items": {"$ref": "#/$defs/a"}}"##;
    let found = problems(&[("a.json", local), ("c.toml", &of_type("a", "a.json"))]);
    assert!(found.contains("/items/$ref: refers to /$defs/a, which the schema does not have"), "{found}");
}

#[test]
fn the_payload_of_a_recurring_job_must_fit_its_type() {
    let toml = format!(
        "{}[cron.nightly]\nschedule = \"0 3 * * *\"\ntype = \"a\"\npayload = {{ to = 7 }}\n",
        of_type("a", "a.json")
    );
    insta::assert_snapshot!(problems(&[("a.json", TEXT), ("c.toml", &toml)]), @r#"
    the configuration has a problem: cron.nightly.payload: does not fit the schema of a: /to: 7 is not of type "string" ([folder]/c.toml:7)
    "#);
}

#[test]
fn a_worker_and_a_producer_need_usable_schemas_and_other_commands_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let toml = of_type("a", "missing.json");
    let files = [("c.toml", toml.as_str())];
    for args in [&["worker"][..], &["enqueue", "a", "{}"]] {
        let output = run(folder.path(), &files, args);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains("types.a.payload_schema: "), "{output:?}");
    }
    assert_eq!(run(folder.path(), &files, &["config", "show"]).code, Some(0));
}
