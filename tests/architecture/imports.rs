//! What each file imports from its own crate, read from its syntax tree, so that neither the position of a `use` nor the way in
//! which it names a module matters.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, ItemUse, Macro, UseTree};

/// One name that a file imports from its own crate.
#[derive(Debug)]
pub(crate) struct Import {
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The path from the root of the crate.
    pub(crate) path: Vec<String>,
}

/// Returns the imports of a file, such as `src/job/id.rs`, without those of its tests.
pub(crate) fn of(file: &str, text: &str) -> Vec<Import> {
    let tree = syn::parse_file(text).unwrap();
    let mut reader = Reader { module: module(file), found: Vec::new() };
    reader.visit_file(&tree);
    reader.found
}

/// Returns the path of a file's module from the root of its crate.
pub(crate) fn module(file: &str) -> Vec<String> {
    let inside = file.split_once("src/").unwrap().1.trim_end_matches(".rs");
    let mut names: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// Returns what the root of the crate exports again, with the module that each name comes from.
pub(crate) fn reexports(root: &str) -> BTreeMap<String, String> {
    let tree = syn::parse_file(root).unwrap();
    let mut found = Vec::new();
    for item in &tree.items {
        if let Item::Use(item) = item {
            leaves(&item.tree, Vec::new(), &mut found);
        }
    }
    let names = found.into_iter().filter_map(|(names, alias)| Some((alias, names.into_iter().next()?)));
    names.collect()
}

/// Returns the modules that a file declares as files of their own.
pub(crate) fn declared(file: &str, text: &str) -> Vec<Vec<String>> {
    let tree: File = syn::parse_file(text).unwrap();
    let outer = |item: &Item| {
        let Item::Mod(item) = item else { return None };
        item.content.is_none().then(|| item.ident.to_string())
    };
    tree.items.iter().filter_map(outer).map(|name| [module(file), vec![name]].concat()).collect()
}

struct Reader {
    /// The module that is being read.
    module: Vec<String>,
    found: Vec<Import>,
}

impl Reader {
    /// Keeps a path that begins at `crate`, `self` or `super`.
    fn keep(&mut self, names: &[String], line: usize) {
        let mut at = match names.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.module.clone(),
            _ => return,
        };
        for name in names {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => drop(at.pop()),
                name => at.push(name.to_owned()),
            }
        }
        self.found.push(Import { line, path: at });
    }

    /// Reads the paths in the arguments of a macro.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let (mut names, mut line): (Vec<String>, usize) = (Vec::new(), 0);
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.keep(&names, line);
                        names.clear();
                        line = ident.span().start().line;
                    }
                    names.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => colons = 0,
            }
        }
        self.keep(&names, line);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut found = Vec::new();
        leaves(&item.tree, Vec::new(), &mut found);
        for (names, _) in found {
            self.keep(&names, item.span().start().line);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.keep(&names, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.read_tokens(call.tokens.clone());
    }
}

/// Collects each path of a `use`, with the name that it gets.
fn leaves(tree: &UseTree, mut names: Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    match tree {
        UseTree::Path(path) => {
            names.push(path.ident.to_string());
            leaves(&path.tree, names, found);
        }
        UseTree::Name(name) => {
            names.push(name.ident.to_string());
            found.push((names, name.ident.to_string()));
        }
        UseTree::Rename(rename) => {
            names.push(rename.ident.to_string());
            found.push((names, rename.rename.to_string()));
        }
        UseTree::Glob(_) => found.push((names, "*".to_owned())),
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves(tree, names.clone(), found);
            }
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|flag| flag.is_ident("test"))
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds cannot import anything")]
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
