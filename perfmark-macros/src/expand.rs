//! Puts the mark's statement at the head of the function's body.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt as _;

use crate::args::Args;
use crate::function::Function;

pub(crate) fn expand(args: TokenStream, item: &TokenStream) -> TokenStream {
    let marked = syn::parse2::<Args>(args).and_then(|args| Ok(mark(&args, Function::parse(item.clone())?)));
    marked.unwrap_or_else(|error| {
        // The item as it was, so that the error stays the only one and editors go on completing.
        let error = error.to_compile_error();
        quote!(#item #error)
    })
}

fn mark(args: &Args, function: Function) -> TokenStream {
    let Function { name, head, body } = function;
    let name = args.name.as_ref().map_or_else(|| name.unraw().to_string(), syn::LitStr::value);
    let events = args.events.iter().map(|event| event.unraw().to_string());
    let (inner_attributes, statements) = split(body.stream());
    let (every, is_fenced) = (args.every.unwrap_or(1), args.fence);
    let statement = quote!(::perfmark::private::mark! { #name [#(#events),*] #every #is_fenced });
    let mut marked = Group::new(Delimiter::Brace, quote!(#inner_attributes #statement #statements));
    marked.set_span(body.span());
    // A body may begin with items, which now stand after a statement.
    quote!(#[allow(clippy::items_after_statements)] #head #marked)
}

/// Inner attributes (`#![allow(…)]`) stand before any statement.
fn split(body: TokenStream) -> (TokenStream, TokenStream) {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let is = |at: usize, mark: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
    let mut inner = 0;
    while is(inner, '#') && is(inner + 1, '!') {
        inner += 3;
    }
    let inner = inner.min(tokens.len());
    (tokens[..inner].iter().cloned().collect(), tokens[inner..].iter().cloned().collect())
}
