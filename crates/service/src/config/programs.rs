//! The programs of a configuration's handlers, changed for those who develop them.

use super::Effective;
use super::sections::Config;
use super::tree::Node;
use streamfleet::handlers::{self, PoolChoice};

/// What of a program's settings is changed.
struct Program<'a> {
    pass_env: &'a mut Vec<String>,
    user: &'a mut Option<String>,
    group: &'a mut Option<String>,
}

impl Effective {
    /// Returns true if a file, a variable or a flag sets this key, such as `["telemetry", "log"]`.
    pub fn sets(&self, key: &[&str]) -> bool {
        sets(&self.tree, key)
    }

    /// Passes these variables of this process to every program of a handler whose `pass_env` nothing sets.
    pub fn pass_env(&mut self, names: &[String]) {
        let Self { config, tree } = self;
        each_program(config, |path, program| {
            if !sets(tree, &[path, &["pass_env"]].concat()) {
                names.clone_into(program.pass_env);
            }
        });
    }

    /// Runs every program of a handler as the user of this process, whatever its configuration says.
    pub fn keep_user(&mut self) {
        each_program(&mut self.config, |_, program| (*program.user, *program.group) = (None, None));
    }
}

/// Calls `change` with each program of the pools, types and steps, and with the keys down to its settings.
fn each_program(config: &mut Config, change: impl Fn(&[&str], Program<'_>)) {
    for (name, pool) in &mut config.pools {
        let handlers::PoolConfig { pass_env, user, group, .. } = pool;
        change(&["pools", name.as_str()], Program { pass_env, user, group });
    }
    for (name, section) in &mut config.types {
        let own = section.handler.iter_mut().map(|handler| (vec!["types", name.as_str()], handler));
        let of_steps = section.steps.iter_mut().flatten().filter_map(|(step, one)| {
            Some((vec!["types", name.as_str(), "steps", step.as_str()], one.handler.as_mut()?))
        });
        for (path, handler) in own.chain(of_steps) {
            let (kind, program) = match handler {
                handlers::Config::Exec(handlers::ExecConfig { pass_env, user, group, .. }) => {
                    ("exec", Program { pass_env, user, group })
                }
                handlers::Config::Pool(PoolChoice::Own(pool)) => {
                    let handlers::PoolConfig { pass_env, user, group, .. } = &mut **pool;
                    ("pool", Program { pass_env, user, group })
                }
                handlers::Config::Pool(PoolChoice::Named(_))
                | handlers::Config::Noop
                | handlers::Config::Http(_) => {
                    continue;
                }
            };
            change(&[path.as_slice(), &["handler", kind]].concat(), program);
        }
    }
}

fn sets(tree: &Node, key: &[&str]) -> bool {
    let path: Vec<String> = key.iter().map(ToString::to_string).collect();
    tree.get(&path).is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::config::Sources;

    #[test]
    fn a_program_gets_the_variables_unless_its_configuration_names_some_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        let toml = r#"
            [pools.open]
            command = ["true"]
            [pools.closed]
            command = ["true"]
            pass_env = []
            user = "nobody"
            group = "daemon"
            [types.a]
            handler.exec = { command = ["true"], pass_env = ["OWN"] }
            [types.b]
            handler.pool = { command = ["true"] }
            [types.c.steps.one]
            kind = "auto"
            handler.exec.command = ["true"]
            [types.d]
            handler.pool = "open"
        "#;
        fs::write(&file, toml).unwrap();
        let mut effective = Sources::default().files([file]).read().unwrap();
        effective.pass_env(&["A".to_owned(), "B".to_owned()]);
        let shown = effective.shown();
        let given = |key: &str| shown.pointer(key).unwrap().to_string();
        for (key, want) in [
            ("/pools/open/pass_env", r#"["A","B"]"#),
            ("/pools/closed/pass_env", "[]"),
            ("/types/a/handler/exec/pass_env", r#"["OWN"]"#),
            ("/types/b/handler/pool/pass_env", r#"["A","B"]"#),
            ("/types/c/steps/one/handler/exec/pass_env", r#"["A","B"]"#),
        ] {
            assert_eq!(given(key), want, "{key}");
        }
        assert_eq!(given("/pools/closed/user"), "\"nobody\"");
        effective.keep_user();
        let closed = &effective.config.pools[&"closed".parse::<crate::job::PoolName>().unwrap()];
        assert_eq!((&closed.user, &closed.group), (&None, &None));
        assert!(effective.sets(&["pools", "closed", "pass_env"]) && !effective.sets(&["telemetry", "log"]));
    }
    #[test]
    fn names_of_variables_keep_their_case_in_a_configuration_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        let toml = "[types.a]\nhandler.exec = { command = [\"true\"], env = { API_Base = \"x\" } }\n";
        fs::write(&file, toml).unwrap();
        let types = Sources::default().files([file]).read().unwrap().config.types;
        let Some(streamfleet::handlers::Config::Exec(exec)) = &types["a"].handler else { panic!("not exec") };
        assert_eq!(exec.env.keys().collect::<Vec<_>>(), ["API_Base"]);
    }
}
