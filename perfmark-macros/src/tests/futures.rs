//! Async functions, and functions that return a future.

use proc_macro2::TokenStream;
use quote::quote;

use super::{assert_expands, called, refusal};
use crate::{expand, region};

#[test]
fn an_async_function_becomes_one_that_returns_its_future() {
    let written = quote! {
        /// Documented.
        #[must_use]
        pub(crate) unsafe async fn f<'a, T: Fn(u8) -> u8, const N: usize>(
            mut self: Box<Self>,
            #[cfg(x)] a: A<T, { N }>,
            mut b: &'a u8,
            (c, d::E { e, .. }): (u8, d::E),
            _: F,
            _m: M,
        ) -> Result<impl Iterator<Item = u8> + use<'a>, G<H, 1>>
        where
            T: I,
        {
            #![allow(unused)]
            use j::k;
            l.await
        }
    };
    assert_expands(
        &quote!(time),
        &written,
        &quote! {
            #[cfg(not(any(doc, clippy)))]
            /// Documented.
            #[must_use]
            pub(crate) unsafe fn f<'a, T: Fn(u8) -> u8, const N: usize>(
                mut self: Box<Self>,
                #[cfg(x)] a: A<T, { N }>,
                b: &'a u8,
                __arg3: (u8, d::E),
                __arg4: F,
                __arg5: M,
            ) -> impl ::core::future::Future<Output = Result<impl Iterator<Item = u8> + use<'a>, G<H, 1>> > where T: I,
            {
                #![allow(unused)]
                ::perfmark::private::polled! { { "f" ["time"] 0u32 false } async move {
                    _ = &self;
                    #[cfg(x)] let a = a;
                    let mut b = b;
                    let __arg3 = __arg3;
                    let (c, d::E { e, .. }) = __arg3;
                    let __arg4 = __arg4;
                    let _ = __arg4;
                    let __arg5 = __arg5;
                    let (_m,) = (__arg5,);
                    if false { return ::perfmark::private::never::<Result<_, G<H, 1>>>(); }
                    match () { () => { use j::k; l.await } }
                } }
            }
            #[cfg(any(doc, clippy))]
            #written
        },
    );
}

#[test]
fn a_function_with_another_macro_or_without_a_result_stays_async() {
    assert_expands(
        &quote!(time),
        &quote! { #[tokio::main] async fn f(mut a: A) { b } },
        &quote! { #[tokio::main] async fn f(mut a: A) {
            ::perfmark::private::polled! { { "f" ["time"] 0u32 false } async move {
                if false { return ::perfmark::private::never::<()>(); }
                match () { () => { b } }
            } }.await
        } },
    );
    assert_expands(
        &quote!(time),
        &quote! { async fn f() -> ! { b } },
        &quote! { async fn f() -> ! {
            ::perfmark::private::polled! { { "f" ["time"] 0u32 false } async move { match () { () => { b } } } }.await
        } },
    );
}

#[test]
fn a_future_at_the_end_is_the_call() {
    for (written, marked) in [
        (quote!(async { b }), quote!(::perfmark::private::polled! { { "f" [""] 0u32 false } async { b } })),
        (
            quote!(let c = 1; Box::pin(async move { b })),
            quote!(let c = 1; Box::pin(::perfmark::private::polled! { { "f" [""] 0u32 false } async move { b } })),
        ),
        (
            quote!(if a { return c; } return ::std::boxed::Box::pin(async {}).boxed()),
            quote! {
                if a { return c; }
                return ::std::boxed::Box::pin(::perfmark::private::polled! { { "f" [""] 0u32 false } async {} }).boxed()
            },
        ),
        (
            quote!(async move {}.boxed().instrument(e)),
            quote!(::perfmark::private::polled! { { "f" [""] 0u32 false } async move {} }.boxed().instrument(e)),
        ),
    ] {
        assert_expands(&quote!(), &quote! { fn f() -> A { #written } }, &quote! { fn f() -> A { #marked } });
    }
}

#[test]
fn a_future_that_is_not_the_functions_own_is_not_the_call() {
    for written in [
        quote!(|x| async { x }),
        quote!(|x| Box::pin(async { x })),
        quote!(async {}.wait()),
        quote!(spawn(async {})),
        quote!(async {};),
    ] {
        let marked = called(&quote!("f" [""] 0u32 false), &quote!(A), &written);
        assert_expands(&quote!(), &quote! { fn f() -> A { #written } }, &quote! { fn f() -> A { #marked } });
    }
}

#[test]
fn one_function_or_region_whose_calls_are_futures_has_no_every() {
    let why = "all calls of async functions and async blocks are measured: remove `every`";
    for item in [quote! { async fn f() { a.await } }, quote! { fn f() -> A { Box::pin(async { a }) } }] {
        assert_eq!(refusal(&quote!(time, every = 2), &item), why);
    }
    assert!(region::expand(quote!("a", every = 2, async { b.await })).to_string().contains(why));
    let written = quote! { mod a { fn f() -> A { async { a } } } };
    let marked = quote! { mod a { #[::perfmark::perfmark(super time,)] fn f() -> A { async { a } } } };
    assert_expands(&quote!(time, every = 2), &written, &marked);
}

#[test]
fn an_async_region_is_a_future() {
    let expanded = region::expand(quote!("a", time, generic, async move { b.await }));
    let expected = quote!(::perfmark::private::polled! { { "a" ["time"] 0u32 false generic } async move { b.await } });
    assert_eq!(expanded.to_string(), expected.to_string());
    let refused = region::expand(quote!("", async { b.await })).to_string();
    assert!(refused.ends_with("async { b . await } }"), "{refused}");
}

#[test]
fn a_region_may_contain_async_closures_but_no_await_of_its_own() {
    let is_refused =
        |block: &TokenStream| region::expand(quote!("a", time, { #block })).to_string().contains("on one thread");
    let with_type = quote!(run(async |f, g| -> Result<u8, E> { f.await }));
    for block in [quote!(run(async |f| f.await)), quote!(run(async move |f, g| f.await + g.await); b), with_type] {
        assert!(!is_refused(&block), "{block}");
    }
    for block in [quote!(run(async |f| f.await, b.await)), quote!(run(async || { f.await }).await)] {
        assert!(is_refused(&block), "{block}");
    }
}

#[test]
fn an_incomplete_async_function_is_kept() {
    for item in
        [quote!(async fn f(a) { b. }), quote!(async fn f(a: ) -> { let c = }), quote!(async fn f(, :) -> Vec< { b. })]
    {
        let expanded = expand::expand(&quote!(time), &item).to_string();
        assert!(expanded.contains("fn f"), "{expanded}");
    }
}
