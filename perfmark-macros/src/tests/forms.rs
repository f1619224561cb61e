//! Each form of a mark.

use proc_macro2::{Delimiter, Group, TokenTree};
use quote::quote;

use super::{assert_expands, called, only_error, refusal};
use crate::expand::expand;
use crate::region;

#[test]
fn a_functions_body_is_a_call() {
    let body = called(&quote!("plain" [""] 0u32 false), &quote!(u32), &quote!(a + 1));
    assert_expands(
        &quote!(),
        &quote! { fn plain(a: u32) -> u32 { a + 1 } },
        &quote! { fn plain(a: u32) -> u32 { #body } },
    );
    let body = called(&quote!("match" ["time"] 0u32 false), &quote!(A<{ N + 1 }>), &quote!());
    assert_expands(
        &quote!(time),
        &quote! {
            pub(in a::b) unsafe extern "C" fn r#match<'a, T: ?Sized, const N: usize>(
                self: &'a Self,
                (b, _): (u8, [T; { N }])
            ) -> A<{ N + 1 }>
            where
                A<{ N }>: Into<T>,
            {}
        },
        &quote! {
            pub(in a::b) unsafe extern "C" fn r#match<'a, T: ?Sized, const N: usize>(
                self: &'a Self,
                (b, _): (u8, [T; { N }])
            ) -> A<{ N + 1 }>
            where
                A<{ N }>: Into<T>,
            { #body }
        },
    );
}

#[test]
fn a_guard_precedes_a_body_whose_value_cannot_be_stored() {
    let heads = [
        quote!(fn f() -> impl Sized),
        quote!(fn f(a: u8) -> Result<(impl Sized, u8), Box<impl Sized>> where A: B),
        quote!(fn f() -> !),
        quote!(fn f() -> Option<type_of!(A)>),
        quote!(fn f<F: Fn() -> u8>() -> ! where A: Fn() -> u8),
    ];
    for head in heads {
        let marked = quote! { #head { ::perfmark::private::mark! { "f" ["time"] 0u32 false } '_perfmark: { a } } };
        assert_expands(&quote!(time), &quote! { #head { a } }, &marked);
    }
    let heads = [
        (quote!(fn f(a: impl Sized) -> u8), quote!(u8)),
        (quote!(pub(in a) fn f(a: impl Sized)), quote!()),
        (quote!(fn f<F: Fn() -> u8>() -> A<true, { 0 }> where A: Fn() -> !), quote!(A<true, { 0 }>)),
    ];
    for (head, type_) in heads {
        let body = called(&quote!("f" ["time"] 0u32 false), &type_, &quote!(a));
        assert_expands(&quote!(time), &quote! { #head { a } }, &quote! { #head { #body } });
    }
}

#[test]
fn attributes_stay_and_keep_their_order() {
    let body = called(
        &quote!("f" ["time"] 0u32 false),
        &quote!(),
        &quote! {
            #[cfg(a)]
            let x = 1;
        },
    );
    assert_expands(
        &quote!(time),
        &quote! {
            /// Documented.
            #[inline(always)]
            #[track_caller]
            pub fn f() {
                //! Inside, too.
                #![allow(unused)]
                #[cfg(a)]
                let x = 1;
            }
        },
        &quote! {
            /// Documented.
            #[inline(always)]
            #[track_caller]
            pub fn f() {
                //! Inside, too.
                #![allow(unused)]
                #body
            }
        },
    );
}

#[test]
fn the_statement_contains_the_options() {
    let cases = [
        (quote!(), quote!(::perfmark), quote!("f" [""] 0u32 false)),
        (quote!(name = "a b"), quote!(::perfmark), quote!("a b" [""] 0u32 false)),
        (quote!(every = 61, time), quote!(::perfmark), quote!("f" ["time"] 61u32 false)),
        (quote!(fence), quote!(::perfmark), quote!("f" [""] 0u32 true)),
        (quote!(cache_misses, "r01c2",), quote!(::perfmark), quote!("f" ["cache-misses\nr1c2"] 0u32 false)),
        (quote!(time, cycles, kernel), quote!(::perfmark), quote!("f" ["time\ncycles:uk"] 0u32 false)),
        (quote!("cpu/event=0xc2/u"), quote!(::perfmark), quote!("f" ["cpu/event=0xc2/u"] 0u32 false)),
        (quote!(crate = a::b), quote!(a::b), quote!("f" [""] 0u32 false)),
        (quote!(crate = ::a), quote!(::a), quote!("f" [""] 0u32 false)),
        (quote!(crate = crate), quote!(crate), quote!("f" [""] 0u32 false)),
    ];
    for (args, krate, mark) in cases {
        assert_expands(
            &args,
            &quote! { fn f() -> ! { 1 } },
            &quote! { fn f() -> ! { #krate::private::mark! { #mark } '_perfmark: { 1 } } },
        );
        let body = quote! {
            let perfmark_begun = #krate::private::begun! { #mark };
            let perfmark_value = match () { () => { 1 } _ => #krate::private::never() };
            #krate::private::ended(perfmark_begun);
            perfmark_value
        };
        assert_expands(&args, &quote! { fn f() { 1 } }, &quote! { fn f() { #body } });
    }
}

#[test]
fn functions_of_an_impl_get_the_attribute() {
    assert_expands(
        &quote!(time, every = 2, crate = a::b),
        &quote! {
            #[allow(unused)]
            impl<const N: usize> A<{ N }> for B {
                const C: [u8; { N }] = { [0; { N }] };
                type D = u8;
                const fn e() {}
                #[unsafe(naked)] extern "C" fn i() { b!() }
                #[cfg_attr(a, unsafe(naked))] extern "C" fn j() { b!() }
                async fn f() {}
                /// Documented.
                pub(crate) unsafe fn g(self) {}
                m! {}
                fn h() -> A<{ N }> {}
                fn {}
            }
        },
        &quote! {
            #[allow(unused)]
            impl<const N: usize> A<{ N }> for B {
                const C: [u8; { N }] = { [0; { N }] };
                type D = u8;
                const fn e() {}
                #[unsafe(naked)] extern "C" fn i() { b!() }
                #[cfg_attr(a, unsafe(naked))] extern "C" fn j() { b!() }
                #[a::b::perfmark(super time, crate = a::b)]
                async fn f() {}
                #[a::b::perfmark(super time, every = 2, crate = a::b)]
                /// Documented.
                pub(crate) unsafe fn g(self) {}
                m! {}
                #[a::b::perfmark(super time, every = 2, crate = a::b)]
                fn h() -> A<{ N }> {}
                fn {}
            }
        },
    );
}

#[test]
fn an_item_with_its_own_attribute_gets_no_other_and_requires_no_import() {
    assert_expands(
        &quote!(time),
        &quote! {
            mod a {
                #[perfmark(skip)] impl A {}
                /** Documented. */ #[::a::perfmark] fn b() {}
                #[c] #[perfmark(cycles)] #[d] pub mod e { #[perfmark] fn f() {} }
                #[perfmark(skip)] const fn g() {}
            }
        },
        &quote! {
            mod a {
                #[::perfmark::perfmark(skip)] impl A {}
                /** Documented. */ #[::a::perfmark] fn b() {}
                #[c] #[::perfmark::perfmark(cycles)] #[d] pub mod e { #[perfmark] fn f() {} }
                #[::perfmark::perfmark(skip)] const fn g() {}
            }
        },
    );
    assert_expands(
        &quote!(crate = a::b),
        &quote! { impl A { #![c] #[perfmark] fn d() {} #[perfmark = e] fn f() {} } },
        &quote! { impl A { #![c] #[a::b::perfmark] fn d() {} #[a::b::perfmark = e] fn f() {} } },
    );
    assert_expands(
        &quote!(time),
        &quote! { mod a { #[renamed(skip)] #[perfmark::other] #[a(perfmark)] fn b() {} } },
        &quote! {
            mod a { #[::perfmark::perfmark(super time)] #[renamed(skip)] #[perfmark::other] #[a(perfmark)] fn b() {} }
        },
    );
    // A `macro_rules` fragment (`$meta:meta`).
    let meta = Group::new(Delimiter::None, quote!(perfmark(skip)));
    assert_expands(
        &quote!(time),
        &quote! { impl A { #[#meta] fn b() {} } },
        &quote! { impl A { #[::perfmark::perfmark(skip)] fn b() {} } },
    );
}

#[test]
fn own_attributes_require_no_import_beside_an_error() {
    let item = quote! { impl A { #[perfmark(skip)] fn b() {} fn c() {} } };
    let expanded = expand(&quote!(cycels), &item).to_string();
    let kept = quote! { impl A { #[::perfmark::perfmark(skip)] fn b() {} fn c() {} } };
    assert!(expanded.starts_with(&kept.to_string()), "{expanded}");
    // The path is unknown.
    refusal(&quote!(cycels, crate = a), &item);
}

#[test]
fn a_second_mark_of_an_item_is_refused() {
    for item in [
        quote! { #[a] #[perfmark] fn b() {} },
        quote! { #[c::perfmark(time)] #[a] async fn b() {} },
        quote! { #[perfmark::perfmark(cycles)] impl B {} },
    ] {
        for args in [quote!(), quote!(time), quote!(skip)] {
            let message = refusal(&args, &item);
            assert!(message.starts_with("this item has two `#[perfmark]` attributes"), "{message}");
        }
    }
}

#[test]
fn an_items_own_attribute_takes_precedence_over_its_containers() {
    let skipped = quote! { #[perfmark(skip)] fn b() { 1 } };
    assert_expands(&quote!(time), &skipped, &skipped);
    let with_path = quote! { #[::perfmark::perfmark(skip)] fn b() { 1 } };
    assert_expands(&quote!(super time), &skipped, &with_path);
    let marked = quote! { #[a] #[::perfmark::perfmark(cycles)] mod b {} };
    assert_expands(&quote!(super), &quote! { #[a] #[perfmark(cycles)] mod b {} }, &marked);
}

#[test]
fn trait_methods_without_a_body_stay_as_they_are() {
    assert_expands(
        &quote!(),
        &quote! { pub unsafe trait A { fn b(&self); const C: u8 = 1; fn d(&self) {} } },
        &quote! { pub unsafe trait A { fn b(&self); const C: u8 = 1; #[::perfmark::perfmark(super)] fn d(&self) {} } },
    );
}

#[test]
fn items_of_a_module_get_the_attribute() {
    assert_expands(
        &quote!(time),
        &quote! {
            mod a {
                //! Documented.
                #![allow(unused)]
                #[cold]
                fn b() {}
                use c::{d, e};
                mod f { fn g() {} }
                mod h;
                pub struct I { j: u8 }
                impl I { fn k() {} }
                unsafe extern "C" { fn l(); }
                extern "C" fn m() {}
                static N: fn() = if o { p } else { q };
            }
        },
        &quote! {
            mod a {
                //! Documented.
                #![allow(unused)]
                #[::perfmark::perfmark(super time)]
                #[cold]
                fn b() {}
                use c::{d, e};
                #[::perfmark::perfmark(super time)]
                mod f { fn g() {} }
                mod h;
                pub struct I { j: u8 }
                #[::perfmark::perfmark(super time)]
                impl I { fn k() {} }
                unsafe extern "C" { fn l(); }
                #[::perfmark::perfmark(super time)]
                extern "C" fn m() {}
                static N: fn() = if o { p } else { q };
            }
        },
    );
}

#[test]
fn skip_leaves_everything_as_it_is() {
    for item in [quote! { fn f() { 1 } }, quote! { fn f(); }, quote! { const fn f() {} }, quote! { struct A; }] {
        assert_expands(&quote!(skip), &item, &item);
    }
}

#[test]
fn a_refused_item_stays_with_one_error() {
    let refused = [
        (quote! { const fn f() {} }, "a `const fn`"),
        (quote! { pub const unsafe extern "C" fn f() {} }, "a `const fn`"),
        (quote! { #[a] #[unsafe(naked)] extern "C" fn f() { b!() } }, "a naked function"),
        (quote! { fn f(&self); }, "a function without a body"),
        (quote! { struct A { b: u8 } }, "`#[perfmark]` applies to a function"),
        (quote! { #[a] use b; }, "`#[perfmark]` applies to a function"),
        (quote! { pub mod a; }, "only an inline `mod name { … }`"),
    ];
    for (item, why) in refused {
        let message = refusal(&quote!(time), &item);
        assert!(message.starts_with(why), "{message}");
    }
    let message = refusal(&quote!(name = "a"), &quote! { impl A { fn b() {} fn c() {} } });
    assert!(message.starts_with("`name` applies to one function"), "{message}");
    let message = refusal(&quote!(nme = "a"), &quote! { mod a { fn b() {} fn c() {} } });
    assert!(message.starts_with("unknown option `nme`"), "{message}");
}

#[test]
fn a_region_is_a_block_or_a_guard() {
    let cases = [
        (quote!("a", { 1 }), quote! { { ::perfmark::private::mark! { "a" [""] 0u32 false } 1 } }),
        (quote!("a", time, fence, { 1 }), quote! { { ::perfmark::private::mark! { "a" ["time"] 0u32 true } 1 } }),
        (
            quote!(
                "a",
                crate = b,
                {
                    #![c]
                    d;
                }
            ),
            quote! { { #![c] b::private::mark! { "a" [""] 0u32 false } d; } },
        ),
        (quote!("a"), quote! { ::perfmark::private::guard! { "a" [""] 0u32 false } }),
        (quote!("a", every = 2, crate = b,), quote! { b::private::guard! { "a" [""] 2u32 false } }),
    ];
    for (input, expected) in cases {
        assert_eq!(region::expand(input).to_string(), expected.to_string());
    }
}

#[test]
fn a_refused_region_keeps_its_block() {
    let refused = [
        (quote!(time, { a }), "a region's first argument is its name"),
        (quote!("", { a }), "a region's name cannot be empty"),
        (quote!("a", every = , { a }), "`every = N` measures one call in N"),
        (quote!("a", name = "b", { a }), "a region's name is its first argument"),
    ];
    for (input, why) in refused {
        let expanded: Vec<_> = region::expand(input).into_iter().collect();
        let [TokenTree::Group(group)] = &expanded[..] else { panic!("a block: {expanded:?}") };
        let mut inside: Vec<_> = group.stream().into_iter().collect();
        assert_eq!(inside.pop().map(|last| last.to_string()).as_deref(), Some("a"));
        let message = only_error(&inside);
        assert!(message.starts_with(why), "{message}");
    }
}
