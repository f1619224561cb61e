//! The functions of a source file, and where an attribute can be put.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use proc_macro2::{Span, TokenStream, TokenTree};

use syn::ext::IdentExt as _;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    AttrStyle, Attribute, Block, Expr, ExprLit, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Lit, Signature,
    TraitItemFn, Visibility,
};

/// A function with a body.
pub(super) struct Function {
    pub(super) name: String,
    /// The offset in bytes at which its mark is inserted: after its other attributes, but above `#[tokio::main]`,
    /// `#[tokio::test]` and their like. Below these, a call would include all its waiting.
    pub(super) start: usize,
    /// Its lines, with its attributes.
    pub(super) lines: RangeInclusive<usize>,
    /// Why it can have no mark, as the end of a sentence.
    pub(super) obstacle: Option<&'static str>,
    /// Whether it is compiled for tests only.
    pub(super) is_test: bool,
}

/// A module whose source is in a file of its own.
pub(super) struct Module {
    /// The folder of the modules around it in its file.
    pub(super) around: PathBuf,
    pub(super) name: String,
    /// The file that an attribute `path` names.
    pub(super) file: Option<PathBuf>,
    /// Whether it is compiled for tests only.
    pub(super) is_test: bool,
}

/// All functions with a body and all modules with a file, outside of macros, in the order of the source; or why the
/// source cannot be read.
pub(super) fn items(source: &str) -> Result<Found, String> {
    let file = syn::parse_file(&without_beginning(source)).map_err(|why| {
        let at = why.span().start();
        format!("line {}: {why}", at.line)
    })?;
    let mut found = Found { is_test: file.attrs.iter().any(is_for_tests), ..Found::default() };
    found.visit_file(&file);
    Ok(found)
}

/// The offsets of the tokens `#`, which begin attributes; or why the source cannot be read.
pub(super) fn hashes(source: &str) -> Result<BTreeSet<usize>, String> {
    fn add(tokens: TokenStream, hashes: &mut BTreeSet<usize>) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => add(group.stream(), hashes),
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    hashes.insert(punct.span().byte_range().start);
                }
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    add(without_beginning(source).parse::<TokenStream>().map_err(|why| why.to_string())?, &mut found);
    Ok(found)
}

/// The source, in which a byte order mark and a line `#!` are blanks, so that offsets stay.
fn without_beginning(source: &str) -> String {
    let mark = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let rest = &source[mark..];
    let is_script = rest.starts_with("#!") && !rest[2..].trim_start().starts_with('[');
    let line = if is_script { rest.find('\n').unwrap_or(rest.len()) } else { 0 };
    " ".repeat(mark + line) + &rest[line..]
}

/// The items of a source file.
#[derive(Default)]
pub(super) struct Found {
    pub(super) functions: Vec<Function>,
    pub(super) modules: Vec<Module>,
    /// The folder of the modules around.
    around: PathBuf,
    /// Why the `#[perfmark]` of an item around excludes another mark; and whether an item is compiled for tests only.
    obstacle: Option<&'static str>,
    is_test: bool,
}

/// The place of a visibility, if there is one.
fn visible(visibility: &Visibility) -> Option<Span> {
    (!matches!(visibility, Visibility::Inherited)).then(|| visibility.span())
}

impl Found {
    /// Adds a function. `before` is the place of what stands between its attributes and its signature.
    fn add(&mut self, attributes: &[Attribute], before: Option<Span>, signature: &Signature, body: &Block) {
        let start = before.unwrap_or_else(|| signature.span());
        let outer = attributes.iter().find(|attribute| matches!(attribute.style, AttrStyle::Outer));
        let first = outer.map_or(start, Spanned::span);
        let has = |word: &str| attributes.iter().any(|attribute| names(attribute, word));
        let is_naked = |attribute: &Attribute| attribute.path().is_ident("unsafe") && mentions(attribute, "naked");
        let runs_futures = |attribute: &&Attribute| {
            let last = attribute.path().segments.last();
            last.is_some_and(|last| last.ident == "main" || last.ident == "test")
        };
        let runner = attributes.iter().find(runs_futures).filter(|_| signature.asyncness.is_some());
        let obstacle = match () {
            () if signature.constness.is_some() => Some("is a const fn, which the compiler may evaluate"),
            () if has("naked") || attributes.iter().any(is_naked) => Some("is naked, without code of the compiler's"),
            () => mark_obstacle(attributes).or(self.obstacle),
        };
        self.functions.push(Function {
            name: signature.ident.to_string(),
            start: runner.map_or(start, Spanned::span).byte_range().start,
            lines: first.start().line..=body.span().end().line,
            obstacle,
            is_test: self.is_test || is_test(attributes),
        });
    }

    /// Visits what an item with these attributes contains. `marks` says whether the item's mark is one of the functions
    /// in it.
    fn inside(&mut self, attributes: &[Attribute], marks: bool, visit: impl FnOnce(&mut Self)) {
        let before = (self.obstacle, self.is_test);
        self.obstacle = mark_obstacle(attributes).or(self.obstacle).filter(|_| marks);
        self.is_test |= is_test(attributes);
        visit(self);
        (self.obstacle, self.is_test) = before;
    }
}

/// Why a `#[perfmark]` among these attributes excludes another mark, if there is one.
fn mark_obstacle(attributes: &[Attribute]) -> Option<&'static str> {
    let mark = attributes.iter().find(|attribute| names(attribute, "perfmark"))?;
    let arguments = mark.meta.require_list().map(|list| list.tokens.to_string().replace(' ', "")).unwrap_or_default();
    Some(if arguments == "skip" || arguments.contains("perfmark(skip)") {
        "is excluded by `#[perfmark(skip)]`, directly or on an item around it; remove `(skip)` to mark it"
    } else {
        "already has a mark, directly or from an item around it"
    })
}

/// Whether it is the attribute with this name, with or without a path, or may become it by `cfg_attr`.
fn names(attribute: &Attribute, name: &str) -> bool {
    let path = attribute.path();
    let is = path.segments.last().is_some_and(|last| last.ident == name);
    is || path.is_ident("cfg_attr") && mentions(attribute, name)
}

/// Whether an item with these attributes is a test, or is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    let is = |attribute: &Attribute| {
        let last = attribute.path().segments.last();
        last.is_some_and(|last| last.ident == "test" || last.ident == "bench") || is_for_tests(attribute)
    };
    attributes.iter().any(is)
}

/// Whether it is a `cfg` that asks for tests.
fn is_for_tests(attribute: &Attribute) -> bool {
    fn asks(tokens: TokenStream) -> bool {
        let mut is_negated = false;
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(word) => {
                is_negated = word == "not";
                word == "test"
            }
            TokenTree::Group(group) => !is_negated && asks(group.stream()),
            _ => false,
        })
    }
    attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(|list| asks(list.tokens.clone()))
}

/// The file, or the folder of an inline module, that `#[path = "…"]` names.
fn file_of_attribute(attribute: &Attribute) -> Option<PathBuf> {
    let Expr::Lit(ExprLit { lit: Lit::Str(file), .. }) = &attribute.meta.require_name_value().ok()?.value else {
        return None;
    };
    attribute.path().is_ident("path").then(|| file.value().into())
}

/// Whether the attribute's arguments contain the word.
fn mentions(attribute: &Attribute, word: &str) -> bool {
    let Ok(list) = attribute.meta.require_list() else { return false };
    list.tokens.to_string().split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.attrs, visible(&item.vis), &item.sig, &item.block);
        self.inside(&item.attrs, false, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        let default = item.modifiers.defaultness.as_ref().map(Spanned::span);
        self.add(&item.attrs, visible(&item.vis).or(default), &item.sig, &item.block);
        self.inside(&item.attrs, false, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.attrs, None, &item.sig, body);
        }
        self.inside(&item.attrs, false, |this| visit::visit_trait_item_fn(this, item));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.inside(&item.attrs, true, |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.inside(&item.attrs, true, |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let (name, file) = (item.ident.unraw().to_string(), item.attrs.iter().find_map(file_of_attribute));
        if item.content.is_none() {
            let is_test = self.is_test || is_test(&item.attrs);
            self.modules.push(Module { around: self.around.clone(), name, file, is_test });
            return;
        }
        let around = self.around.clone();
        self.around.push(file.unwrap_or_else(|| name.into()));
        self.inside(&item.attrs, true, |this| visit::visit_item_mod(this, item));
        self.around = around;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_marked_says_why() {
        let source = "const fn a() {}\n#[perfmark(time)] fn b() { fn c() {} }\n#[perfmark]\nimpl S { fn d() {} }\n\
                      #[cfg_attr(x, perfmark::perfmark)] fn e() {}\n#[unsafe(naked)] fn f() {}\n\
                      extern \"C\" { fn g(); }\ntrait T { fn h(); fn i() {\n#![allow(x)]\n} }\n\
                      #[cfg(test)] mod tests { fn j() {} }\n#[test] fn k() { fn l() {} }\n\
                      #[cfg(all(unix, not(test)))] fn m() {}\n#[cfg_attr(not(test), inline)] fn n() {}\n";
        let found = items(source).expect("valid").functions;
        let free = |one: &&Function| one.obstacle.is_none() && !one.is_test;
        assert_eq!(found.iter().filter(free).map(|one| &*one.name).collect::<Vec<_>>(), ["c", "i", "m", "n"]);
        assert_eq!(found.iter().map(|one| &*one.name).collect::<String>(), "abcdefijklmn");
        assert_eq!(found[0].obstacle, Some("is a const fn, which the compiler may evaluate"));
        assert_eq!((&found[2].lines, &found[6].lines), (&(2..=2), &(8..=10)));
    }

    #[test]
    fn a_skipped_function_is_not_said_to_have_a_mark() {
        let source = "#[perfmark(skip)] fn a() { fn b() {} }\n#[perfmark::perfmark(time)] impl S {\n\
                      #[perfmark::perfmark(skip)] fn c() {} fn d() {} const fn i() {} }\n#[perfmark(skip)] impl S {\n\
                      fn e() {} #[perfmark] fn f() {} }\n#[cfg_attr(x, perfmark::perfmark(skip))] fn g() {}\n\
                      #[perfmark(name = \"skip\")] fn h() {}\n";
        let found = items(source).expect("valid").functions;
        let of = |why: &str| {
            let is_so = |one: &&Function| one.obstacle.is_some_and(|obstacle| obstacle.starts_with(why));
            found.iter().filter(is_so).map(|one| &*one.name).collect::<String>()
        };
        assert_eq!((of("is excluded by `#[perfmark(skip)]`"), of("already has a mark")), ("aceg".into(), "dfh".into()));
    }
}
