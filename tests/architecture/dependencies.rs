//! Where dependencies come from, and under which licences.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The registry of crates.io. Nothing comes from a repository or from elsewhere.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences that ask for no more than a notice.
const LICENCES: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates under the MPL-2.0, which only the tests use: nothing that is shipped contains them.
const MPL_IN_TESTS: [&str; 4] = ["cssparser", "cssparser-macros", "dtoa-short", "selectors"];

/// Returns true if a package may be used under this [SPDX expression](https://spdx.github.io/spdx-spec/). Old ones write `/` for OR.
fn is_allowed(expression: &str) -> bool {
    let allowed = |licence: &str| LICENCES.contains(&licence.trim().trim_matches(['(', ')']));
    let all = expression.replace('/', " OR ");
    // In all expressions so far, AND binds what is in parentheses.
    all.split(" AND ").all(|part| part.trim_matches(['(', ')']).split(" OR ").any(allowed))
}

#[test]
fn every_dependency_comes_from_the_registry_under_a_licence_that_is_allowed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let args =
        ["metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let told = Command::new(env!("CARGO")).args(args).current_dir(root).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{}", packages.len());
    let mut wrong = Vec::new();
    for package in packages {
        let (name, source) = (package["name"].as_str().unwrap(), package["source"].as_str());
        // A package of the workspace has no source.
        let Some(source) = source else { continue };
        let licence = package["license"].as_str().unwrap_or("none");
        if source != REGISTRY {
            wrong.push(format!("{name} comes from {source}"));
        }
        if !is_allowed(licence) && !MPL_IN_TESTS.contains(&name) {
            wrong.push(format!(
                "{name} has the licence {licence}; docs/dependencies.md says which are allowed"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn expressions_of_licences_are_read() {
    for allowed in
        ["MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception OR MIT"]
    {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in ["none", "GPL-3.0", "MIT AND GPL-3.0", "AGPL-3.0 OR LGPL-3.0"] {
        assert!(!is_allowed(refused), "{refused}");
    }
}
