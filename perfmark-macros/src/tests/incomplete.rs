//! Incomplete syntax, which an editor passes to the macro while its user types. The tokens stay, so that the editor can
//! still complete, and there is at most one error.

use proc_macro2::TokenStream;
use quote::quote;

use super::{assert_expands, called, only_error, refusal};
use crate::expand::expand;
use crate::region;

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("balanced")
}

/// Bodies that a user may not have finished.
const BODIES: &[&str] = &[
    "self.",
    "x. let y = 1;",
    "let",
    "let y =",
    "let y: =",
    "foo()::",
    "foo(a, )",
    "foo(a, &mut ) + ",
    "if",
    "if x. { }",
    "match x { A => , B }",
    "for x in { }",
    "return",
    "|a|",
    "#",
    "#[cfg]",
    "#[cfg(a)] fn",
    "#!",
    "#![allow]",
    "#![allow] #!",
    "use",
    "use a::",
    "use a::{b, }",
    "fn",
    "fn g",
    "fn g()",
    "fn g() let x = 1;",
    "const",
    "const N",
    "unsafe",
    "extern",
    "extern \"C\"",
    "pub",
    "pub(crate)",
    "struct S { a: }",
    "macro_rules!",
    "macro_rules! m",
    "::perfmark::private::mark!",
    "a::private::mark",
    "\"a\"",
    "'a:",
    ";",
    "",
];

/// The expansion without the code around `BODY` in `around`, which occurs once.
#[track_caller]
fn without(expanded: &TokenStream, around: &TokenStream) -> String {
    let (around, mut rest) = (around.to_string(), expanded.to_string());
    let (before, after) = around.split_once("BODY").expect("BODY");
    for part in [before.trim(), after.trim()].into_iter().filter(|part| !part.is_empty()) {
        assert_eq!(rest.matches(part).count(), 1, "{rest}");
        rest = rest.replacen(part, "", 1);
    }
    tokens(&rest).to_string()
}

#[test]
fn a_body_that_is_incomplete_is_marked_and_kept() {
    let around = called(&quote!("f" ["time"] 0u32 false), &quote!(), &quote!(BODY));
    for body in BODIES.iter().copied().map(tokens) {
        let item = quote! { fn f() { #body } };
        assert_eq!(without(&expand(&quote!(time), &item), &around), item.to_string());
    }
}

#[test]
fn a_region_that_is_incomplete_is_marked_and_kept() {
    let around = quote!(::perfmark::private::mark! { "a" ["time"] 0u32 false } BODY);
    for body in BODIES.iter().copied().map(tokens) {
        let block = quote! { { #body } };
        assert_eq!(without(&region::expand(quote!("a", time, #block)), &around), block.to_string());
    }
    for arguments in
        ["", "a", ",", "\"a\" cycles", "\"a\", every =", "\"a\", name", "\"a\", crate = a::", "\"a\", ,"].map(tokens)
    {
        only_error(&region::expand(arguments).into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_signature_that_is_incomplete_is_marked_and_kept() {
    let signatures = [
        "fn f(a: )",
        "fn f(a: , b)",
        "fn f(&)",
        "fn f(&self, ) ->",
        "fn f<>()",
        "fn f<T: >() where",
        "fn f() -> Vec<",
        "fn f() -> impl",
        "pub() fn f()",
        "fn f",
        "#[] fn f()",
        "#[doc = ] fn f()",
    ];
    let mark = quote!("f" ["time"] 0u32 false);
    for signature in signatures {
        let signature = tokens(signature);
        // An incomplete result type is kept as well. Without one, the result is `()`.
        let result = signature.to_string().split_once("->").map(|(_, result)| tokens(result)).unwrap_or_default();
        let body = match &*result.to_string() {
            "impl" => quote!(::perfmark::private::mark! { #mark } '_perfmark: { 1 }),
            "" => called(&mark, &quote!(), &quote!(1)),
            _ => called(&mark, &result, &quote!(1)),
        };
        assert_expands(&quote!(time), &quote! { #signature { 1 } }, &quote! { #signature { #body } });
    }
}

#[test]
fn an_item_that_is_incomplete_stays_with_one_error() {
    let items = [
        "",
        "#",
        "#[a]",
        "#!",
        "pub",
        "pub fn",
        "fn",
        "fn f",
        "fn f()",
        "fn f() ->",
        "fn f() -> u8;",
        "fn f() where T:",
        "extern \"C\"",
        "unsafe",
        "async",
        "const",
        "const fn",
        "fn { }",
        "fn 1() { }",
        "impl",
        "impl A",
        "impl A for",
        "mod",
        "mod a",
        "trait",
        "trait A:",
        "{ }",
        "a",
        "1",
    ];
    for item in items {
        refusal(&quote!(time), &tokens(item));
    }
}

#[test]
fn a_container_that_is_incomplete_is_kept() {
    let containers = [
        "impl A { }",
        "impl { fn f() {} }",
        "impl A { fn }",
        "impl A { fn f }",
        "impl A { fn f() }",
        "impl A { fn f() fn g() {} }",
        "impl A { pub }",
        "impl A { # }",
        "impl A { #! }",
        "impl A { #[a] }",
        "impl A { #![a] }",
        "impl A { #![a] #! fn f() {} }",
        "impl A { fn f() { self. } fn g(a: ) -> { } }",
        "impl A { const B: u8 = fn f() {} }",
        "mod a { use b::  fn f() {} }",
        "mod a { struct fn f() {} }",
        "mod a { fn f() {} . }",
        "mod a { ; }",
        "trait A { fn f(&self) -> ; fn g() {} }",
        "mod a { mod b { fn } }",
    ];
    let attribute = quote!(#[::perfmark::perfmark(super time)]).to_string();
    for container in containers {
        let expanded = expand(&quote!(time), &tokens(container)).to_string();
        let kept = tokens(&expanded.replace(&attribute, "")).to_string();
        assert_eq!(kept, tokens(container).to_string());
    }
}

#[test]
fn arguments_that_are_incomplete_give_one_error_beside_the_item() {
    let arguments = [
        ",",
        "=",
        "cycles,,",
        "cycles cycles",
        "name",
        "name =",
        "name = ,",
        "every",
        "every =",
        "every = 1.5",
        "every = -",
        "crate",
        "crate =",
        "crate = a::",
        "crate = ::",
        "fence =",
        "kernel",
        "cycles, every",
        "\"\"",
        "\"cpu/\"",
        "skip,",
        "()",
        "a::b",
        "a.b",
    ];
    for arguments in arguments.map(tokens) {
        refusal(&arguments, &quote! { #[inline] pub fn f() { self. } });
        refusal(&arguments, &quote! { impl A { fn f() {} fn g() {} } });
    }
}
