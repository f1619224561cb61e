//! Functions whose call is a future: `async fn`, and functions whose last expression is an async block or
//! `Box::pin(async …)`.
//!
//! An async function is rewritten to one that returns `impl Future`, as the compiler does. An async block in an async
//! function would hold the arguments twice. If another macro's attribute follows, or the type cannot be named, the
//! function stays async and awaits an async block.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};

use crate::body::split_inner_attributes;
use crate::function::Function;
use crate::signature::{Signature, move_in};
use crate::tokens::{is_group, is_punct, is_word, with_content};

/// Whether the function's call is a future.
pub(crate) fn is_call(function: &Function) -> bool {
    function.is_async || tail(&function.body.stream().into_iter().collect::<Vec<_>>()).is_some()
}

/// The marked function, if its call is a future. `mark` has the form that the recorder's macros accept.
pub(crate) fn expand(function: &Function, mark: &TokenStream, krate: &TokenStream) -> Option<TokenStream> {
    let polled = |future: TokenStream| quote!(#krate::private::polled! { { #mark } #future });
    if !function.is_async {
        return with_tail_marked(function, &polled);
    }
    let Function { head, body, .. } = function;
    let (inner_attributes, statements) = split_inner_attributes(body.stream());
    let signature = Signature::parse(head.clone())?;
    let spans = ResultSpans::of(signature.result.as_ref());
    // The first `return` in an async block determines the type of its result.
    let typed = signature.named_result().map(|result| spans.returning(&result, krate));
    let is_plain = signature.has_plain_attributes() && typed.is_some();
    let (arguments, move_in) =
        if is_plain { move_in(&signature.arguments) } else { (signature.arguments.clone(), TokenStream::new()) };
    // The temporaries of a match arm are dropped at its end, before the arguments. In editions before 2024, those of a
    // block's last expression are not. The block of the arm also hides the body's items from the arguments.
    let inner = with_content(body, quote!(#(#statements)*));
    let block = with_content(body, quote!(#move_in #typed match () { () => #inner }));
    // Panic messages give the body's location for the future.
    let future = polled(quote_spanned!(body.span()=> async move #block));
    if !is_plain {
        let body = with_content(body, quote!(#inner_attributes #future.await));
        return Some(quote!(#head #body));
    }
    let Signature { before, result, bounds, .. } = signature;
    let result = spans.future(&result.unwrap_or_else(|| quote!(())));
    let marked = with_content(body, quote!(#inner_attributes #future));
    // rustdoc and Clippy read the function as written.
    Some(quote! {
        #[cfg(not(any(doc, clippy)))]
        #before #arguments -> #result #bounds #marked
        #[cfg(any(doc, clippy))]
        #head #body
    })
}

/// The location of the result type, so that errors point to it.
struct ResultSpans {
    first: Span,
    last: Span,
}

impl ResultSpans {
    fn of(result: Option<&TokenStream>) -> Self {
        let spans: Vec<Span> = result.into_iter().flat_map(Clone::clone).map(|token| token.span()).collect();
        let of_macro =
            |span: Option<&Span>| span.map_or_else(Span::call_site, |&span| Span::call_site().located_at(span));
        Self { first: of_macro(spans.first()), last: of_macro(spans.last()) }
    }

    /// A statement that returns a result of this type and never runs.
    fn returning(&self, result: &TokenStream, krate: &TokenStream) -> TokenStream {
        let krate = krate.clone().into_iter().map(|mut token| {
            token.set_span(token.span().located_at(self.first));
            token
        });
        let mut nothing = Group::new(Delimiter::Parenthesis, TokenStream::new());
        nothing.set_span(self.last);
        quote_spanned!(self.first=> if false { return #(#krate)*::private::never::<#result> #nothing; })
    }

    /// The type of a future with this result.
    fn future(&self, result: &TokenStream) -> TokenStream {
        let (begin, end) =
            (quote_spanned!(self.first=> impl ::core::future::Future<Output =), quote_spanned!(self.last=> >));
        quote!(#begin #result #end)
    }
}

/// The function with the future in its last expression marked, if there is one.
fn with_tail_marked(function: &Function, polled: &dyn Fn(TokenStream) -> TokenStream) -> Option<TokenStream> {
    let Function { head, body, .. } = function;
    let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let Tail { at, pin } = tail(&tokens)?;
    let (before, future, after) = (&tokens[..at.start], &tokens[at.clone()], &tokens[at.end..]);
    let marked = match pin {
        None => polled(quote!(#(#future)*)),
        Some(group) => with_content(group, polled(group.stream())).into_token_stream(),
    };
    let body = with_content(body, quote!(#(#before)* #marked #(#after)*));
    Some(quote!(#head #body))
}

/// The location of the future in a body's last expression.
struct Tail<'a> {
    /// The indices of the async block's tokens, or of the parentheses that contain it.
    at: Range<usize>,
    /// The parentheses of `Box::pin(…)`.
    pin: Option<&'a Group>,
}

/// Methods of futures that return futures.
const METHODS: [&str; 4] = ["boxed", "boxed_local", "instrument", "in_current_span"];

/// Finds `async move { … }` or `Box::pin(async move { … })` at the end. Calls of [`METHODS`] may follow it.
fn tail(tokens: &[TokenTree]) -> Option<Tail<'_>> {
    let mut end = tokens.len();
    while let [.., dot, method, arguments] = &tokens[..end] {
        let is_call = is_punct(Some(dot), '.') && is_group(Some(arguments), Delimiter::Parenthesis);
        if !is_call || !is_word(Some(method), &METHODS) {
            break;
        }
        end -= 3;
    }
    let tokens = &tokens[..end];
    if let Some(begin) = async_block(tokens) {
        return is_expression_start(tokens, begin).then_some(Tail { at: begin..end, pin: None });
    }
    let [path @ .., TokenTree::Group(group)] = tokens else { return None };
    let [.., name, one, two, pin] = path else { return None };
    let ends_in_pin = is_word(Some(name), &["Box"])
        && is_punct(Some(one), ':')
        && is_punct(Some(two), ':')
        && is_word(Some(pin), &["pin"]);
    let is_path =
        |token: &&TokenTree| matches!(token, TokenTree::Ident(word) if word != "return") || is_punct(Some(token), ':');
    let begin = path.len() - path.iter().rev().take_while(is_path).count();
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    let is_one = group.delimiter() == Delimiter::Parenthesis && async_block(&inside) == Some(0);
    (ends_in_pin && is_one && is_expression_start(tokens, begin)).then_some(Tail { at: end - 1..end, pin: Some(group) })
}

/// Whether a complete expression of the body starts at this index, not the body of a closure or a part of another.
fn is_expression_start(tokens: &[TokenTree], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| tokens.get(at));
    before.is_none() || is_punct(before, ';') || is_group(before, Delimiter::Brace) || is_word(before, &["return"])
}

/// The index of the async block at the end of the tokens.
pub(crate) fn async_block(tokens: &[TokenTree]) -> Option<usize> {
    match tokens {
        [.., TokenTree::Group(block)] if block.delimiter() != Delimiter::Brace => None,
        [before @ .., word, TokenTree::Group(_)] if is_word(Some(word), &["async"]) => Some(before.len()),
        [before @ .., word, move_, TokenTree::Group(_)]
            if is_word(Some(word), &["async"]) && is_word(Some(move_), &["move"]) =>
        {
            Some(before.len())
        }
        _ => None,
    }
}
