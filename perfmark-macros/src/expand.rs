//! Adds a mark's entry and exit to the function's body, or to its future.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};

use crate::args::{Args, OF_ITEM};
use crate::body::split_inner_attributes;
use crate::container::{self, Kind};
use crate::function::Function;
use crate::future;
use crate::signature;
use crate::tokens::{is_punct, is_word, may_contain_impl, with_content};

/// The first word of the attribute that a container gives to its items.
const INHERITED: &str = "super";

pub(crate) fn expand(args: &TokenStream, item: &TokenStream) -> TokenStream {
    try_expand(args, item).unwrap_or_else(|error| {
        // Keeping the item avoids further errors, and editors can still complete.
        let (error, item) = (error.to_compile_error(), unmarked_item(args, item));
        quote!(#item #error)
    })
}

fn try_expand(args: &TokenStream, item: &TokenStream) -> syn::Result<TokenStream> {
    let mut args = args.clone().into_iter().peekable();
    let is_inherited = args.next_if(|token| is_word(Some(token), &[INHERITED])).is_some();
    let args = &args.collect();
    let (attributes, words) = container::split_attributes(item);
    let parsed = |args: &TokenStream| {
        let parsed = |input: ParseStream<'_>| Args::parse(input, OF_ITEM)?.of_one_mark();
        parsed.parse2(args.clone())
    };
    match container::own_mark(&attributes) {
        Some(_) if is_inherited => {
            let krate = parsed(args)?.krate();
            return Ok(attributes.into_iter().map(|token| container::with_path(token, &krate)).chain(words).collect());
        }
        Some((_, true)) => return Ok(item.clone()),
        Some((span, _)) => {
            let why = "this item has two `#[perfmark]` attributes: remove one of them";
            return Err(syn::Error::new(span, why));
        }
        None if container::is_skip(args) => return Ok(item.clone()),
        None => {}
    }
    let function = match Kind::of(&words) {
        Kind::Container => None,
        Kind::Function { name, is_async } => Some(Function::parse(name, is_async, &attributes, item)),
        Kind::Other(error) => Some(Err(error)),
    };
    let parsed = parsed(args)?;
    let krate = parsed.krate();
    let Some(function) = function.transpose()? else {
        if let Some(name) = &parsed.name {
            let why =
                "`name` applies to one function, and this item may contain several: put it on the function itself";
            return Err(syn::Error::new(name.span(), why));
        }
        let (head, body) = container::split_body(item.clone())?;
        let (inherited, of_futures) = (Ident::new(INHERITED, Span::call_site()), without_every(args));
        let attribute = |tokens: &[TokenTree]| {
            let args = if parsed.every.is_some() && is_future(tokens) { &of_futures } else { args };
            Some(quote!(#krate::perfmark(#inherited #args)))
        };
        return Ok(container::mark_items(&head, &body, &krate, &attribute));
    };
    let mark = mark(&parsed, &function.name);
    if let Some(marked) = future::expand(&function, &mark, &krate) {
        return parsed.check_future().map(|()| marked);
    }
    let Function { name, head, body, .. } = function;
    let (inner_attributes, statements) = split_inner_attributes(body.stream());
    // The statements get a block of their own, because a lint reports items after a statement, such as the mark's. An
    // `allow` for it is an error in a crate that forbids the lint. Items may use later ones, so they stay together.
    let inner = with_content(&body, statements.iter().cloned().collect());
    let call = match signature::result(&head) {
        // A variable cannot have such a type. In a block, unlike a match arm, the compiler infers a closure's type from
        // the result's. Without the label, `unused_braces` would report the block. The label has the block's span,
        // because lints skip a block that starts in an expansion.
        Some(result) if may_contain_impl(&result) => {
            let label = quote_spanned!(body.span()=> '_perfmark:);
            quote!(#krate::private::mark! { #mark } #label #inner)
        }
        // The value is stored before the call ends. If the function returns nothing else, the compiler stores it
        // directly in the caller's return slot. Lints of variables' types do not look into the alias `Same`. The second
        // arm never runs. Without it, the statements after a body that diverges would be unreachable, which a lint
        // reports. An `if` would hide endless recursion from `unconditional_recursion`.
        result => {
            let result = result.map(|result| quote!(: #krate::private::Same<#result>));
            let (begun, value) = (hygienic("perfmark_begun", None), hygienic("perfmark_value", None));
            // With the location of the last expression, so that type errors point there.
            let returned = hygienic("perfmark_value", statements.last());
            quote! {
                let #begun = #krate::private::begun! { #mark };
                let #value #result = match () { () => #inner _ => #krate::private::never() };
                #krate::private::ended(#begun);
                #returned
            }
        }
    };
    let mut marked = with_content(&body, quote!(#inner_attributes #call));
    if is_checked_for_canonical_form(&name) {
        marked.set_span(body.span().resolved_at(Span::call_site()));
    }
    Ok(quote!(#head #marked))
}

/// The item, beside an error. The attributes inside a container do not require an import here either, unless the
/// arguments may specify the crate's path.
fn unmarked_item(args: &TokenStream, item: &TokenStream) -> TokenStream {
    if args.clone().into_iter().any(|token| is_word(Some(&token), &["crate"])) {
        return item.clone();
    }
    match (Kind::of(&container::split_attributes(item).1), container::split_body(item.clone())) {
        (Kind::Container, Ok((head, body))) => container::mark_items(&head, &body, &quote!(::perfmark), &|_| None),
        _ => item.clone(),
    }
}

/// Whether the item, which has no attributes, is a function whose call is a future.
fn is_future(item: &[TokenTree]) -> bool {
    let Kind::Function { name, is_async } = Kind::of(item) else { return false };
    let item = item.iter().cloned().collect();
    Function::parse(name, is_async, &[], &item).is_ok_and(|function| future::is_call(&function))
}

/// The arguments that a container gives to functions whose calls are futures.
fn without_every(args: &TokenStream) -> TokenStream {
    let mut args = args.clone().into_iter().peekable();
    let mut kept = TokenStream::new();
    while let Some(token) = args.next() {
        if is_word(Some(&token), &["every"]) && is_punct(args.peek(), '=') {
            args.by_ref().find(|token| is_punct(Some(token), ','));
        } else {
            kept.extend([token]);
        }
    }
    kept
}

/// An identifier that the user's code cannot refer to. It has the location of the token, if one is given.
fn hygienic(name: &str, at: Option<&TokenTree>) -> Ident {
    let own = Span::mixed_site();
    Ident::new(name, at.map_or(own, |token| own.located_at(token.span())))
}

/// A mark in the form that the recorder's macros accept.
pub(crate) fn mark(args: &Args, name: &Ident) -> TokenStream {
    let name = args.name.as_ref().map_or_else(|| name.unraw().to_string(), syn::LitStr::value);
    let recording = recording(args);
    let generic = args.generic.map(|span| Ident::new("generic", span));
    quote!(#name #recording #generic)
}

/// Which events marks record, and how. The events' names are one literal with one name per line, which compiles faster
/// than an array.
pub(crate) fn recording(args: &Args) -> TokenStream {
    let (events, every, is_fenced) = (args.events.join("\n"), args.every.map_or(0, |(every, _)| every), args.fence);
    quote!([#events] #every #is_fenced)
}

/// Whether lints require a particular expression as the body (`clippy::non_canonical_clone_impl`,
/// `clippy::non_canonical_partial_ord_impl`). An `allow` on the function does not silence them, but they ignore a body
/// that comes from a macro.
fn is_checked_for_canonical_form(name: &Ident) -> bool {
    name == "clone" || name == "partial_cmp"
}
