//! Functions whose call is a future: `async fn`, and those whose last expression is an async block, perhaps in `Box::pin(…)`.
//!
//! An async function is rewritten to one that returns `impl Future`, as the compiler does it: an async block within an async function would hold its
//! arguments twice. Where another macro's attribute follows, or the type cannot be named, it stays async and awaits such a block.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};

use crate::body::split;
use crate::function::Function;
use crate::signature::{Signature, move_in};
use crate::tokens::{is, is_group, is_word, refilled};

/// The marked function, if its call is a future. `mark` is the mark, as the recorder's macros take it.
pub(crate) fn expand(function: &Function, mark: &TokenStream, krate: &TokenStream) -> Option<TokenStream> {
    let polled = |future: TokenStream| quote!(#krate::private::polled! { { #mark } #future });
    if !function.is_async {
        return in_tail(function, &polled);
    }
    let Function { head, body, .. } = function;
    let (inner_attributes, statements) = split(body.stream());
    let signature = Signature::parse(head.clone())?;
    let ends = Ends::of(signature.result.as_ref());
    // As an async block's type is told by what it returns first.
    let typed = signature.named_result().map(|result| ends.returning(&result, krate));
    let is_plain = signature.has_plain_attributes() && typed.is_some();
    let (arguments, move_in) =
        if is_plain { move_in(&signature.arguments) } else { (signature.arguments.clone(), TokenStream::new()) };
    // An arm's temporaries are dropped at its end, before the arguments: in editions before 2024, those of a block's end are not. And the body's own
    // items are not seen by the arguments.
    let inner = refilled(body, quote!(#(#statements)*));
    let block = refilled(body, quote!(#move_in #typed match () { () => #inner }));
    // The future's own place, in messages of panics, is the body's.
    let future = polled(quote_spanned!(body.span()=> async move #block));
    if !is_plain {
        let body = refilled(body, quote!(#inner_attributes #future.await));
        return Some(quote!(#head #body));
    }
    let allow = signature.draws();
    let Signature { before, result, bounds, .. } = signature;
    let result = ends.future(&result.unwrap_or_else(|| quote!(())));
    let body = refilled(body, quote!(#inner_attributes #future));
    Some(quote!(#allow #before #arguments -> #result #bounds #body))
}

/// Where the result stands, so that there is said what is wrong with it.
struct Ends {
    first: Span,
    last: Span,
}

impl Ends {
    fn of(result: Option<&TokenStream>) -> Self {
        let spans: Vec<Span> = result.into_iter().flat_map(Clone::clone).map(|token| token.span()).collect();
        let of_macro =
            |span: Option<&Span>| span.map_or_else(Span::call_site, |&span| Span::call_site().located_at(span));
        Self { first: of_macro(spans.first()), last: of_macro(spans.last()) }
    }

    /// A statement that returns a result of that type, and never runs.
    fn returning(&self, result: &TokenStream, krate: &TokenStream) -> TokenStream {
        let krate = krate.clone().into_iter().map(|mut token| {
            token.set_span(token.span().located_at(self.first));
            token
        });
        let mut nothing = Group::new(Delimiter::Parenthesis, TokenStream::new());
        nothing.set_span(self.last);
        quote_spanned!(self.first=> if false { return #(#krate)*::private::never::<#result> #nothing; })
    }

    /// The type of a future with that result.
    fn future(&self, result: &TokenStream) -> TokenStream {
        let (begin, end) =
            (quote_spanned!(self.first=> impl ::core::future::Future<Output =), quote_spanned!(self.last=> >));
        quote!(#begin #result #end)
    }
}

/// The function with the future of its last expression marked, if it has one.
fn in_tail(function: &Function, polled: &dyn Fn(TokenStream) -> TokenStream) -> Option<TokenStream> {
    let Function { head, body, .. } = function;
    let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let Tail { at, pin } = tail(&tokens)?;
    let (before, future, behind) = (&tokens[..at.start], &tokens[at.clone()], &tokens[at.end..]);
    let marked = match pin {
        None => polled(quote!(#(#future)*)),
        Some(group) => refilled(group, polled(group.stream())).into_token_stream(),
    };
    let body = refilled(body, quote!(#(#before)* #marked #(#behind)*));
    Some(quote!(#head #body))
}

/// Where a body's last expression has its future.
struct Tail<'a> {
    /// The async block's tokens, or the parentheses that hold it.
    at: Range<usize>,
    /// These parentheses.
    pin: Option<&'a Group>,
}

/// Methods of futures that give futures.
const METHODS: [&str; 4] = ["boxed", "boxed_local", "instrument", "in_current_span"];

/// Finds `async move { … }` or `Box::pin(async move { … })` at the end, perhaps with calls of such methods behind it.
fn tail(tokens: &[TokenTree]) -> Option<Tail<'_>> {
    let mut end = tokens.len();
    while let [.., dot, method, arguments] = &tokens[..end] {
        let is_call = is(Some(dot), '.') && is_group(Some(arguments), Delimiter::Parenthesis);
        if !is_call || !is_word(Some(method), &METHODS) {
            break;
        }
        end -= 3;
    }
    let tokens = &tokens[..end];
    if let Some(begin) = async_block(tokens) {
        return begins_at(tokens, begin).then_some(Tail { at: begin..end, pin: None });
    }
    let [path @ .., TokenTree::Group(group)] = tokens else { return None };
    let [.., name, one, two, pin] = path else { return None };
    let ends_in_pin =
        is_word(Some(name), &["Box"]) && is(Some(one), ':') && is(Some(two), ':') && is_word(Some(pin), &["pin"]);
    let is_path =
        |token: &&TokenTree| matches!(token, TokenTree::Ident(word) if word != "return") || is(Some(token), ':');
    let begin = path.len() - path.iter().rev().take_while(is_path).count();
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    let is_one = group.delimiter() == Delimiter::Parenthesis && async_block(&inside) == Some(0);
    (ends_in_pin && is_one && begins_at(tokens, begin)).then_some(Tail { at: end - 1..end, pin: Some(group) })
}

/// Whether an expression of the body's own begins there, not a closure's or another one's part.
fn begins_at(tokens: &[TokenTree], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| tokens.get(at));
    before.is_none() || is(before, ';') || is_group(before, Delimiter::Brace) || is_word(before, &["return"])
}

/// Where the async block begins with which the tokens end.
pub(crate) fn async_block(tokens: &[TokenTree]) -> Option<usize> {
    match tokens {
        [.., TokenTree::Group(block)] if block.delimiter() != Delimiter::Brace => None,
        [before @ .., word, TokenTree::Group(_)] if is_word(Some(word), &["async"]) => Some(before.len()),
        [before @ .., word, of_move, TokenTree::Group(_)]
            if is_word(Some(word), &["async"]) && is_word(Some(of_move), &["move"]) =>
        {
            Some(before.len())
        }
        _ => None,
    }
}
