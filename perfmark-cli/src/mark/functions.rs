//! The functions of a source file, and where an attribute can be put.

use std::ops::RangeInclusive;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Signature, TraitItemFn, Visibility};

/// A function with a body.
pub(super) struct Function {
    pub(super) name: String,
    /// The offset in bytes of its item, after its attributes.
    pub(super) start: usize,
    /// Its lines, with its attributes.
    pub(super) lines: RangeInclusive<usize>,
    /// Why it can have no mark, as the end of a sentence.
    pub(super) obstacle: Option<&'static str>,
    /// Whether it is compiled for tests only.
    pub(super) is_test: bool,
}

/// All functions with a body, outside of macros, in the order of the source; or why the source cannot be read.
pub(super) fn functions(source: &str) -> Result<Vec<Function>, String> {
    let file = syn::parse_file(&without_beginning(source)).map_err(|why| {
        let at = why.span().start();
        format!("line {}: {why}", at.line)
    })?;
    let mut found = Found::default();
    found.visit_file(&file);
    Ok(found.functions)
}

/// The source, in which a byte order mark and a line `#!` are blanks, so that offsets stay.
fn without_beginning(source: &str) -> String {
    let mark = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let rest = &source[mark..];
    let is_script = rest.starts_with("#!") && !rest[2..].trim_start().starts_with('[');
    let line = if is_script { rest.find('\n').unwrap_or(rest.len()) } else { 0 };
    " ".repeat(mark + line) + &rest[line..]
}

#[derive(Default)]
struct Found {
    functions: Vec<Function>,
    /// Whether an item around is marked, which marks its functions; and whether one is compiled for tests only.
    is_marked: bool,
    is_test: bool,
}

impl Found {
    fn add(&mut self, attributes: &[Attribute], visibility: Option<&Visibility>, signature: &Signature, body: &Block) {
        let visible = visibility.filter(|visibility| !matches!(visibility, Visibility::Inherited));
        let start = visible.map_or_else(|| signature.span(), Spanned::span);
        let first = attributes.first().map_or(start, Spanned::span);
        let has = |word: &str| attributes.iter().any(|attribute| names(attribute, word));
        let obstacle = match () {
            () if self.is_marked || has("perfmark") => Some("has a mark, or an item around it has"),
            () if signature.constness.is_some() => Some("is a const fn, which the compiler may evaluate"),
            () if has("naked") || attributes.iter().any(|attribute| mentions(attribute, "naked")) => {
                Some("is naked: it has no entry or exit of its own")
            }
            () => None,
        };
        self.functions.push(Function {
            name: signature.ident.to_string(),
            start: start.byte_range().start,
            lines: first.start().line..=body.span().end().line,
            obstacle,
            is_test: self.is_test || has("test") || has("bench"),
        });
    }

    /// Visits what an item with these attributes contains.
    fn inside(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        let before = (self.is_marked, self.is_test);
        let is_test = |attribute: &Attribute| names(attribute, "cfg") && mentions(attribute, "test");
        self.is_marked |= attributes.iter().any(|attribute| names(attribute, "perfmark"));
        self.is_test |= attributes.iter().any(is_test);
        visit(self);
        (self.is_marked, self.is_test) = before;
    }
}

/// Whether it is the attribute with this name, with or without a path, or may become it by `cfg_attr`.
fn names(attribute: &Attribute, name: &str) -> bool {
    let path = attribute.path();
    let is = path.segments.last().is_some_and(|last| last.ident == name);
    is || path.is_ident("cfg_attr") && mentions(attribute, name)
}

/// Whether the attribute's arguments contain the word.
fn mentions(attribute: &Attribute, word: &str) -> bool {
    let Ok(list) = attribute.meta.require_list() else { return false };
    list.tokens.to_string().split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.attrs, Some(&item.vis), &item.sig, &item.block);
        // Functions inside are not marked by its attribute.
        let is_marked = std::mem::take(&mut self.is_marked);
        visit::visit_item_fn(self, item);
        self.is_marked = is_marked;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.attrs, Some(&item.vis), &item.sig, &item.block);
        let is_marked = std::mem::take(&mut self.is_marked);
        visit::visit_impl_item_fn(self, item);
        self.is_marked = is_marked;
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.attrs, None, &item.sig, body);
        }
        let is_marked = std::mem::take(&mut self.is_marked);
        visit::visit_trait_item_fn(self, item);
        self.is_marked = is_marked;
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.inside(&item.attrs, |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.inside(&item.attrs, |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.inside(&item.attrs, |this| visit::visit_item_mod(this, item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_marked_says_why() {
        let source = "const fn a() {}\n#[perfmark(time)] fn b() { fn c() {} }\n#[perfmark]\nimpl S { fn d() {} }\n\
                      #[cfg_attr(x, perfmark::perfmark)] fn e() {}\n#[unsafe(naked)] fn f() {}\nextern \"C\" { fn g(); }\n\
                      trait T { fn h(); fn i() {} }\n#[cfg(test)] mod tests { #[test] fn j() {} }\n";
        let found = functions(source).expect("valid");
        let free = |one: &&Function| one.obstacle.is_none() && !one.is_test;
        assert_eq!(found.iter().filter(free).map(|one| &*one.name).collect::<Vec<_>>(), ["c", "i"]);
        assert_eq!(found.iter().map(|one| &*one.name).collect::<String>(), "abcdefij");
        assert_eq!(found[0].obstacle, Some("is a const fn, which the compiler may evaluate"));
        assert_eq!(found[2].lines, 2..=2);
    }

    #[test]
    fn wrong_source_is_reported_with_its_line() {
        let why = functions("fn a() {}\nfn b( {}\n").err().expect("not valid");
        assert!(why.starts_with("line 2: "), "{why}");
    }
}
