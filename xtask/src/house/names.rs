//! The file of a crate that a path names, by modules, their definitions, and the names that they
//! pass on by `pub use`.
//!
//! Called by: `house.rs`. Macros are not expanded, and `#[cfg(test)]` is left out.

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result};
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

use crate::tidy::source::Source;

/// A path from the crate's root, or from a module.
type Segments = Vec<String>;

/// One name that a `use` brings.
struct Import {
    path: Segments,
    /// As which name; `*` for all of a module.
    name: String,
    is_public: bool,
}

/// A file, as far as names go.
#[derive(Default)]
struct File {
    module: Segments,
    defines: HashSet<String>,
    imports: Vec<Import>,
    /// Paths in its code.
    paths: Vec<Segments>,
}

/// The files of a crate.
pub(super) struct Crate {
    files: Vec<File>,
    modules: HashMap<Segments, usize>,
}

impl Crate {
    /// Read them.
    ///
    /// # Errors
    /// One is no Rust.
    pub(super) fn read(sources: &[&Source]) -> Result<Crate> {
        let mut files = Vec::new();
        for source in sources {
            let parsed = syn::parse_file(&source.text).with_context(|| source.path.clone())?;
            let mut file = File { module: module_of(&source.path), ..File::default() };
            file.visit_file(&parsed);
            files.push(file);
        }
        let modules = files.iter().enumerate().map(|(n, file)| (file.module.clone(), n)).collect();
        Ok(Crate { files, modules })
    }

    /// For each file the others that it imports something from.
    pub(super) fn imports(&self) -> Vec<Vec<usize>> {
        (0..self.files.len()).map(|number| self.imported(number)).collect()
    }

    fn imported(&self, number: usize) -> Vec<usize> {
        let file = &self.files[number];
        let mut found = BTreeSet::new();
        for import in &file.imports {
            // A module that passes on names of its own files does not depend on them.
            let Some(path) = self.absolute(file, &import.path) else { continue };
            let is_own = path.starts_with(&file.module) && import.is_public;
            if let (false, Some(to)) = (is_own, self.file_of(&path)) {
                found.insert(to);
            }
        }
        for path in &file.paths {
            let first = file.imports.iter().find(|i| i.name == path[0] && path.len() > 1);
            let path = match first {
                Some(import) => [&import.path[..], &path[1..]].concat(),
                None => path.clone(),
            };
            found.extend(self.absolute(file, &path).and_then(|path| self.file_of(&path)));
        }
        found.remove(&number);
        found.into_iter().collect()
    }

    /// The path from the crate's root; `None` for other crates' names.
    fn absolute(&self, file: &File, path: &[String]) -> Option<Segments> {
        let mut module = file.module.clone();
        match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([&module[..], &path[1..]].concat()),
            "super" => {
                let up = path.iter().take_while(|name| *name == "super").count();
                module.truncate(module.len().saturating_sub(up));
                return Some([&module[..], &path[up..]].concat());
            }
            first => module.push(first.to_owned()),
        }
        let is_child = self.modules.contains_key(&module);
        is_child.then(|| [&file.module[..], path].concat())
    }

    /// The file that defines what a path names; `None` for a module as such.
    fn file_of(&self, path: &[String]) -> Option<usize> {
        self.resolve(path, 0)
    }

    fn resolve(&self, path: &[String], depth: usize) -> Option<usize> {
        let (module, number) =
            (0..=path.len()).rev().find_map(|len| Some((len, *self.modules.get(&path[..len])?)))?;
        let name = path.get(module)?;
        let file = &self.files[number];
        if file.defines.contains(name) || depth > 8 {
            return Some(number);
        }
        for import in &file.imports {
            let brought = match import.name.as_str() {
                "*" => [&import.path[..], &path[module..]].concat(),
                named if named == name => [&import.path[..], &path[module + 1..]].concat(),
                _ => continue,
            };
            let brought = self.absolute(file, &brought);
            if let Some(found) = brought.and_then(|path| self.resolve(&path, depth + 1)) {
                return Some(found);
            }
        }
        (name != "*").then_some(number)
    }
}

/// The module that a file is, by its path below `src`.
fn module_of(path: &str) -> Segments {
    let below = path.split_once("/src/").map_or(path, |(_, below)| below);
    let below = below.trim_end_matches(".rs");
    let below = below.strip_suffix("/mod").unwrap_or(below);
    match below {
        "lib" | "main" => Vec::new(),
        _ => below.split('/').map(str::to_owned).collect(),
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        let list = attribute.meta.require_list().ok();
        let says = list.map(|list| list.tokens.to_string()).unwrap_or_default();
        is_cfg && (says == "test" || says.starts_with("all (test"))
    })
}

impl Visit<'_> for File {
    fn visit_item(&mut self, item: &Item) {
        let (name, attributes) = match item {
            Item::Const(i) => (Some(&i.ident), &i.attrs),
            Item::Enum(i) => (Some(&i.ident), &i.attrs),
            Item::Fn(i) => (Some(&i.sig.ident), &i.attrs),
            Item::Static(i) => (Some(&i.ident), &i.attrs),
            Item::Struct(i) => (Some(&i.ident), &i.attrs),
            Item::Trait(i) => (Some(&i.ident), &i.attrs),
            Item::Type(i) => (Some(&i.ident), &i.attrs),
            Item::Union(i) => (Some(&i.ident), &i.attrs),
            Item::Macro(i) => (i.ident.as_ref(), &i.attrs),
            Item::Impl(i) => (None, &i.attrs),
            Item::Mod(i) => (None, &i.attrs),
            Item::Use(i) => (None, &i.attrs),
            _ => return,
        };
        if is_for_tests(attributes) {
            return;
        }
        self.defines.extend(name.map(ToString::to_string));
        syn::visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &ItemMod) {
        // An inline module is part of this file, under a name of its own.
        if item.content.is_some() {
            self.defines.insert(item.ident.to_string());
        }
        syn::visit::visit_item_mod(self, item);
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.bring(&item.tree, &mut Vec::new(), is_public);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let segments: Segments = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 {
            self.paths.push(segments);
        }
        syn::visit::visit_path(self, path);
    }
}

impl File {
    fn bring(&mut self, tree: &UseTree, before: &mut Segments, is_public: bool) {
        let mut one = |path: Segments, name: String| {
            self.imports.push(Import { path, name, is_public });
        };
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.bring(&path.tree, before, is_public);
                before.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.bring(tree, before, is_public));
            }
            UseTree::Glob(_) => one(before.clone(), "*".to_owned()),
            UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().cloned().unwrap_or_default();
                one(before.clone(), last);
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                one([&before[..], std::slice::from_ref(&name)].concat(), name);
            }
            UseTree::Rename(rename) => {
                let path = [&before[..], &[rename.ident.to_string()]].concat();
                one(path, rename.rename.to_string());
            }
        }
    }
}
