//! Tests of expansions, compared as tokens.

mod forms;
mod futures;
mod incomplete;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::quote;

use crate::expand::expand;

/// Asserts that `#[perfmark(args)] item` expands to the expected tokens.
#[track_caller]
fn assert_expands(args: &TokenStream, item: &TokenStream, expected: &TokenStream) {
    assert_eq!(expand(args, item).to_string(), expected.to_string());
}

/// The error of `#[perfmark(args)] item`, which must expand to the unchanged item and one error.
#[track_caller]
fn refusal(args: &TokenStream, item: &TokenStream) -> String {
    let expanded: Vec<TokenTree> = expand(args, item).into_iter().collect();
    let (kept, error) = expanded.split_at(item.clone().into_iter().count());
    assert_eq!(text(kept), item.to_string(), "the item stays");
    only_error(error)
}

/// The text of the error, which must be all that the tokens contain: `::core::compile_error! { "…" }`.
#[track_caller]
fn only_error(tokens: &[TokenTree]) -> String {
    let Some((TokenTree::Group(group), path)) = tokens.split_last() else { panic!("no error: {}", text(tokens)) };
    assert_eq!((text(path).as_str(), group.delimiter()), (":: core :: compile_error !", Delimiter::Brace));
    group.stream().to_string().trim_matches('"').to_owned()
}

/// The expansion of a body whose mark has these tokens. Its value has this type, or `()` if the type is empty.
fn called(mark: &TokenStream, type_: &TokenStream, body: &TokenStream) -> TokenStream {
    let type_ = if type_.is_empty() { quote!() } else { quote!(: ::perfmark::private::Same<#type_>) };
    quote! {
        let perfmark_begun = ::perfmark::private::begun! { #mark };
        let perfmark_value #type_ = match () { () => { #body } _ => ::perfmark::private::never() };
        ::perfmark::private::ended(perfmark_begun);
        perfmark_value
    }
}

fn text(tokens: &[TokenTree]) -> String {
    tokens.iter().cloned().collect::<TokenStream>().to_string()
}
