//! Puts the mark's statement at the head of the function's body.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt as _;

use crate::args::Args;
use crate::container::{self, Kind};
use crate::function::Function;
use crate::items;

pub(crate) fn expand(args: &TokenStream, item: &TokenStream) -> TokenStream {
    try_expand(args, item).unwrap_or_else(|error| {
        // The item as it was, so that the error stays the only one and editors go on completing.
        let error = error.to_compile_error();
        quote!(#item #error)
    })
}

fn try_expand(args: &TokenStream, item: &TokenStream) -> syn::Result<TokenStream> {
    if is_skip(args) {
        return Ok(match Function::parse(item.clone()) {
            Ok(function) => rebuild(function, None),
            // What cannot be marked needs no skipping.
            Err(_) => item.clone(),
        });
    }
    let parsed: Args = syn::parse2(args.clone())?;
    let krate = parsed.krate();
    if matches!(Kind::of(&container::without_attributes(item)), Kind::Container) {
        if let Some(name) = &parsed.name {
            return Err(syn::Error::new(name.span(), "a name is for one function, and here are several"));
        }
        let (head, body) = container::take_apart(item.clone())?;
        return Ok(container::mark_all(&head, &body, &quote!(#[#krate::perfmark(#args)])));
    }
    let function = Function::parse(item.clone())?;
    let statement = statement(&parsed, &function.name, &krate);
    Ok(rebuild(function, Some(&statement)))
}

/// `#[perfmark(skip)]`
fn is_skip(args: &TokenStream) -> bool {
    let mut words = args.clone().into_iter();
    matches!((words.next(), words.next()), (Some(TokenTree::Ident(word)), None) if word == "skip")
}

/// The statement that makes a mark and begins its call.
fn statement(args: &Args, name: &Ident, krate: &TokenStream) -> TokenStream {
    let mark = mark(args, name);
    quote!(#krate::private::mark! { #mark })
}

/// A mark, as the recorder's macros take it.
pub(crate) fn mark(args: &Args, name: &Ident) -> TokenStream {
    let name = args.name.as_ref().map_or_else(|| name.unraw().to_string(), syn::LitStr::value);
    let (events, every, is_fenced) = (&args.events, args.every.unwrap_or(1), args.fence);
    quote!(#name [#(#events),*] #every #is_fenced)
}

/// The function with that statement at the head of its body, and without another mark's: an attribute of the function's own comes after that of
/// the `impl` or `mod` around it.
fn rebuild(function: Function, statement: Option<&TokenStream>) -> TokenStream {
    let Function { head, body, .. } = function;
    let (inner_attributes, rest) = split(body.stream());
    let (items, statements) = rest.split_at(items::leading(&rest));
    let statements = without_mark(statements);
    let mut marked = Group::new(Delimiter::Brace, quote!(#inner_attributes #(#items)* #statement #(#statements)*));
    marked.set_span(body.span());
    quote!(#head #marked)
}

/// Inner attributes (`#![allow(…)]`) stand before any statement.
pub(crate) fn split(body: TokenStream) -> (TokenStream, Vec<TokenTree>) {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let mut inner = 0;
    while is(tokens.get(inner), '#') && is(tokens.get(inner + 1), '!') {
        inner += 3;
    }
    let inner = inner.min(tokens.len());
    (tokens[..inner].iter().cloned().collect(), tokens[inner..].to_vec())
}

fn is(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// The statements without a mark's at their head: `… private::mark! { … }`.
fn without_mark(statements: &[TokenTree]) -> &[TokenTree] {
    let is_path = |token: &&TokenTree| matches!(token, TokenTree::Ident(_)) || is(Some(token), ':');
    let path: Vec<&TokenTree> = statements.iter().take_while(is_path).collect();
    let ends_so = matches!(&path[..], [.., TokenTree::Ident(private), _, _, TokenTree::Ident(mark)] if private == "private" && mark == "mark");
    match &statements[path.len()..] {
        [bang, TokenTree::Group(_), rest @ ..] if ends_so && is(Some(bang), '!') => rest,
        _ => statements,
    }
}
