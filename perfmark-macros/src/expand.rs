//! Puts a mark's entry and exit around the function's body, or around its future.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt as _;

use crate::args::Args;
use crate::body::split;
use crate::container::{self, Kind};
use crate::function::Function;
use crate::future;
use crate::items;
use crate::signature;
use crate::tokens::{is, is_word, refilled};

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
            Ok(function) => {
                let Function { head, body, .. } = unmarked(function);
                quote!(#head #body)
            }
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
        return Ok(container::mark_all(&head, &body, &quote!(#krate::perfmark(#args))));
    }
    let function = Function::parse(item.clone())?;
    let mark = mark(&parsed, &function.name);
    let function = unmarked(function);
    if let Some(marked) = future::expand(&function, &mark, &krate) {
        return Ok(marked);
    }
    let Function { name, head, body, .. } = function;
    let (inner_attributes, rest) = split(body.stream());
    let (items, statements) = rest.split_at(items::leading(&rest));
    let call = match signature::result(&head) {
        Some(result) if !is_of_a_variable(&result) => {
            quote!(#krate::private::mark! { #mark } #(#statements)*)
        }
        // The value is stored before the call ends. If nothing else is returned, the compiler stores it directly where the
        // caller wants it. Lints of variables' types do not look into an alias. The second branch never runs: without it,
        // what follows a body that diverges would be unreachable, and a lint would report it.
        result => {
            let result = result.map(|result| quote!(: #krate::private::Same<#result>));
            let body = refilled(&body, statements.iter().cloned().collect());
            let (begun, value) = (hygienic("perfmark_begun", None), hygienic("perfmark_value", None));
            // At the place of the last expression, so that errors of its type point there.
            let returned = hygienic("perfmark_value", statements.last());
            quote! {
                let #begun = #krate::private::begun! { #mark };
                let #value #result = if true #body else { #krate::private::never() };
                #krate::private::ended(#begun);
                #returned
            }
        }
    };
    let mut marked = refilled(&body, quote!(#inner_attributes #(#items)* #call));
    if is_canonical(&name) {
        marked.set_span(body.span().resolved_at(Span::call_site()));
    }
    Ok(quote!(#head #marked))
}

/// An identifier that no name of the user's refers to. If a token is given, it has that token's location.
fn hygienic(name: &str, at: Option<&TokenTree>) -> Ident {
    let own = Span::mixed_site();
    Ident::new(name, at.map_or(own, |token| own.located_at(token.span())))
}

/// Whether a variable may have that type: not where it is, or may be, `impl Trait` or `!`. A macro's is not known.
fn is_of_a_variable(type_: &TokenStream) -> bool {
    type_.clone().into_iter().all(|token| match token {
        TokenTree::Group(group) => is_of_a_variable(&group.stream()),
        token => !is_word(Some(&token), &["impl"]) && !is(Some(&token), '!'),
    })
}

/// `#[perfmark(skip)]`
fn is_skip(args: &TokenStream) -> bool {
    let mut words = args.clone().into_iter();
    matches!((words.next(), words.next()), (Some(TokenTree::Ident(word)), None) if word == "skip")
}

/// A mark, as the recorder's macros take it.
pub(crate) fn mark(args: &Args, name: &Ident) -> TokenStream {
    let name = args.name.as_ref().map_or_else(|| name.unraw().to_string(), syn::LitStr::value);
    let recorded = recorded(args);
    let generic = args.generic.map(|span| Ident::new("generic", span));
    quote!(#name #recorded #generic)
}

/// What marks record, and how. The events' names are one literal, a line each: an array of them would be compiled more slowly.
pub(crate) fn recorded(args: &Args) -> TokenStream {
    let (events, every, is_fenced) = (args.events.join("\n"), args.every.unwrap_or(0), args.fence);
    quote!([#events] #every #is_fenced)
}

/// The function without another mark's: an attribute of the function's own comes after that of the `impl` or `mod` around it.
fn unmarked(mut function: Function) -> Function {
    let (inner_attributes, statements) = split(function.body.stream());
    let statements = without_mark(&statements);
    function.body = refilled(&function.body, quote!(#inner_attributes #statements));
    function
}

/// Whether lints compare the body with the one expression that they want there (`clippy::non_canonical_clone_impl`,
/// `clippy::non_canonical_partial_ord_impl`). They leave alone what a macro made, and an `allow` on the function does not reach them.
fn is_canonical(name: &Ident) -> bool {
    name == "clone" || name == "partial_cmp"
}

/// The statements without what a mark has put around them: `let perfmark_begun = …; let perfmark_value = if true {
/// statements } …`, or `… private::mark! { … }` before them, or `… private::polled! { { … } future }`, perhaps awaited.
fn without_mark(statements: &[TokenTree]) -> TokenStream {
    let (mut plain, mut rest, mut before) = (TokenStream::new(), statements, None);
    while let Some((first, behind)) = rest.split_first() {
        if let Some(body) = body_of_marked(rest) {
            plain.extend(body);
            return plain;
        }
        if let Some((future, behind)) = put_around(rest) {
            let future: Vec<TokenTree> = future.into_iter().collect();
            match (future.last(), behind) {
                (Some(TokenTree::Group(block)), [_, await_]) if is_word(Some(await_), &["await"]) => {
                    plain.extend(block.stream());
                    return plain;
                }
                _ => plain.extend(future),
            }
            rest = behind;
            continue;
        }
        plain.extend([match first {
            TokenTree::Group(group) if is_word(before, &["pin"]) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                TokenTree::Group(refilled(group, without_mark(&inside)))
            }
            first => first.clone(),
        }]);
        (before, rest) = (Some(first), behind);
    }
    plain
}

/// What our macro at the beginning of these tokens has been put around, which is nothing for a statement's, and what comes behind it.
fn put_around(tokens: &[TokenTree]) -> Option<(TokenStream, &[TokenTree])> {
    let mut at = 0;
    // `::a::b`
    loop {
        if is(tokens.get(at), ':') && is(tokens.get(at + 1), ':') {
            at += 2;
        } else if at > 0 {
            break;
        }
        if !matches!(tokens.get(at)?, TokenTree::Ident(_)) {
            return None;
        }
        at += 1;
    }
    let [.., private, _, _, called] = &tokens[..at] else { return None };
    let [bang, TokenTree::Group(group), behind @ ..] = &tokens[at..] else { return None };
    if !is_word(Some(private), &["private"]) || !is(Some(bang), '!') {
        return None;
    }
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    match &inside[..] {
        [TokenTree::Group(mark), future @ ..]
            if is_word(Some(called), &["polled"]) && is_mark(&mark.stream().into_iter().collect::<Vec<_>>()) =>
        {
            Some((future.iter().cloned().collect(), behind))
        }
        mark if is_word(Some(called), &["mark"]) && is_mark(mark) => Some((TokenStream::new(), behind)),
        _ => None,
    }
}

/// The body in a call that begins with the first of these statements, as [`expand`] writes it.
fn body_of_marked(tokens: &[TokenTree]) -> Option<TokenStream> {
    let is_begin = is_word(tokens.first(), &["let"]) && is_word(tokens.get(1), &["perfmark_begun"]);
    if !is_begin {
        return None;
    }
    // `let perfmark_value: … = if true { … } else …`
    tokens.windows(3).find_map(|tokens| match tokens {
        [if_, true_, TokenTree::Group(body)] if is_word(Some(if_), &["if"]) && is_word(Some(true_), &["true"]) => {
            Some(body.stream())
        }
        _ => None,
    })
}

/// Whether it is a mark as [`mark`] writes it: so much of it that nobody else has.
fn is_mark(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Literal(_), TokenTree::Group(events), TokenTree::Literal(_), is_fenced, ..]
        if events.delimiter() == Delimiter::Bracket && is_word(Some(is_fenced), &["true", "false"]))
}
