//! The packages in `sdk/`: their version, their licenses, and the links of the pages that registries show. The programs of the tests: each
//! has a tier.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{assert_none, files, root};

/// Where the program, each package and a page state the version, and what stands before it.
const VERSIONS: [(&str, &str); 9] = [
    ("Cargo.toml", "[workspace.package]\nversion = \""),
    ("sdk/django/streamfleet_django/_version.py", "VERSION = \""),
    ("sdk/nestjs/package.json", "\"version\": \""),
    ("sdk/node/package.json", "\"version\": \""),
    ("sdk/php/src/Worker.php", "const VERSION = '"),
    ("sdk/python/streamfleet/_version.py", "VERSION = \""),
    ("sdk/ruby/lib/streamfleet/version.rb", "VERSION = '"),
    ("docs/pools.md", "\"streamfleet\":\""),
    ("docs/pools.md", "\"sdk\":\"streamfleet-php "),
];

const PACKAGES: [&str; 10] = [
    "sdk/django",
    "sdk/hyperf",
    "sdk/laravel",
    "sdk/nestjs",
    "sdk/node",
    "sdk/php",
    "sdk/python",
    "sdk/ruby",
    "sdk/symfony",
    "sdk/webman",
];

/// Packages that state no version: Composer takes it from the tag, and they need the package for PHP of the same one.
const VERSIONED_BY_TAG: [&str; 4] = ["sdk/hyperf", "sdk/laravel", "sdk/symfony", "sdk/webman"];

/// Where the pages of the packages link to.
const REPOSITORY: &str = "https://github.com/streamfleet/streamfleet";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn version(file: &str, before: &str) -> String {
    let text = read(file);
    let (_, rest) = text.split_once(before).unwrap();
    rest.split(['"', '\'']).next().unwrap().to_owned()
}

/// Returns the files of a package that can state its version.
fn sources(package: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for ending in ["js", "mjs", "ts", "mts", "json", "php", "py", "rb", "toml"] {
        files(&root().join(package), ending, &mut found);
    }
    let skipped = ["node_modules", "vendor", "build", "test", "tests"];
    found.retain(|path| !path.iter().any(|part| skipped.iter().any(|name| part == *name)));
    found
}

/// Returns the targets of the links of a page.
fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[test]
fn the_program_and_all_packages_have_one_version() {
    let found: BTreeSet<String> = VERSIONS.iter().map(|(file, before)| version(file, before)).collect();
    assert_eq!(found.len(), 1, "{VERSIONS:?} have {found:?}");
}

#[test]
fn each_package_states_its_version_once() {
    let version = version(VERSIONS[0].0, VERSIONS[0].1);
    for package in PACKAGES {
        let times = |path: &PathBuf| fs::read_to_string(path).unwrap().matches(&version).count();
        let total: usize = sources(package).iter().map(times).sum();
        let wanted = usize::from(!VERSIONED_BY_TAG.contains(&package));
        assert_eq!(total, wanted, "how often {package} states {version}");
    }
}

#[test]
fn each_package_has_the_licenses() {
    for package in PACKAGES {
        for name in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert_eq!(read(&format!("{package}/{name}")), read(name), "{package}/{name}");
        }
    }
}

#[test]
fn links_of_the_packages_work_in_registries() {
    let mut findings = Vec::new();
    for package in PACKAGES {
        for link in links(&read(&format!("{package}/README.md"))) {
            let path = link.split('#').next().unwrap();
            let file = ["blob", "tree"]
                .iter()
                .find_map(|kind| path.strip_prefix(&format!("{REPOSITORY}/{kind}/main/")));
            let is_dead = match file {
                Some(file) => !root().join(file).exists(),
                None => !(link.starts_with("https://") || link.starts_with('#')),
            };
            if is_dead {
                findings.push(format!("{package}/README.md: {link}"));
            }
        }
    }
    assert_none(findings);
}

#[test]
fn the_image_is_built_from_every_package() {
    let ignored = read("deploy/docker/Dockerfile.dockerignore");
    let kept: BTreeSet<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let manifest = read("Cargo.toml");
    let members = manifest.split_once("\nmembers = [").unwrap().1.split(']').next().unwrap();
    let folders = members.split('"').skip(1).step_by(2).filter(|member| *member != ".");
    let lost = folders.filter(|member| !kept.contains(member.split('/').next().unwrap()));
    assert_none(lost.map(|member| format!("Dockerfile.dockerignore leaves out {member}")).collect());
}

/// Returns the names of the test programs of all packages, and whether `cargo test` runs each.
fn test_programs() -> Vec<(String, bool)> {
    let manifests = ["Cargo.toml", "program/Cargo.toml", "tests/jobs/Cargo.toml"].map(read).concat();
    let sections = manifests.split("[[test]]\n").skip(1).map(|rest| rest.split("\n\n").next().unwrap());
    let name = |section: &str| section.split('"').nth(1).unwrap().to_owned();
    sections.map(|section| (name(section), !section.contains("test = false"))).collect()
}

#[test]
fn what_cargo_test_leaves_out_is_what_make_check_runs() {
    let left_out: BTreeSet<String> =
        test_programs().into_iter().filter(|(_, runs)| !runs).map(|(name, _)| name).collect();
    let makefile = read("Makefile");
    let long = makefile.lines().find_map(|line| line.strip_prefix("LONG := $(addprefix --test=,")).unwrap();
    let run: BTreeSet<String> = long.trim_end_matches(')').split(' ').map(str::to_owned).collect();
    assert_eq!(left_out, run);
}

#[test]
fn every_folder_of_tests_is_a_program_that_a_manifest_names() {
    let manifests = [
        "Cargo.toml",
        "program/Cargo.toml",
        "program/demo/Cargo.toml",
        "tests/jobs/Cargo.toml",
        "tests/public-api/Cargo.toml",
    ];
    let named: String = manifests.iter().map(|path| read(path)).collect();
    let mut findings = Vec::new();
    for folder in fs::read_dir(root().join("tests")).unwrap() {
        let path = folder.unwrap().path().join("main.rs");
        let own = path.with_file_name("Cargo.toml");
        let end = path.strip_prefix(root()).unwrap().display().to_string();
        let is_named = named.contains(&format!("{}\"", end.trim_start_matches("tests")))
            || fs::read_to_string(own).is_ok_and(|own| own.contains("\"main.rs\""));
        if path.exists() && !is_named {
            findings.push(format!("no manifest names {end}"));
        }
    }
    assert_none(findings);
}
