//! Adds a mark's entry and exit to the function's body, or to its future.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
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

pub(crate) fn expand(args: &TokenStream, item: &TokenStream) -> TokenStream {
    try_expand(args, item).unwrap_or_else(|error| {
        // Keeping the item avoids further errors, and editors can still complete.
        let (error, item) = (error.to_compile_error(), unmarked_item(args, item));
        quote!(#item #error)
    })
}

fn try_expand(args: &TokenStream, item: &TokenStream) -> syn::Result<TokenStream> {
    let (attributes, words) = container::split_attributes(item);
    if let Some(span) = container::second_mark(&attributes) {
        let why = "this item has two `#[perfmark]` attributes: remove one of them";
        return Err(syn::Error::new(span, why));
    }
    let function = match Kind::of(&words) {
        Kind::Container => None,
        Kind::Function { name, is_async } => Some(Function::parse(name, is_async, &attributes, item)),
        Kind::Other(error) => Some(Err(error)),
    };
    if container::is_skip(args) {
        return Ok(match function {
            Some(Ok(function)) => {
                let Function { head, body, .. } = unmarked(function);
                quote!(#head #body)
            }
            // An item that cannot be marked has no mark to remove.
            _ => item.clone(),
        });
    }
    let parsed = |input: ParseStream<'_>| Args::parse(input, OF_ITEM)?.of_one_mark();
    let parsed = parsed.parse2(args.clone())?;
    let krate = parsed.krate();
    let Some(function) = function.transpose()? else {
        if let Some(name) = &parsed.name {
            let why =
                "`name` applies to one function, and this item may contain several: put it on the function itself";
            return Err(syn::Error::new(name.span(), why));
        }
        let (head, body) = container::split_body(item.clone())?;
        let of_futures = without_every(args);
        let attribute = |tokens: &[TokenTree]| {
            let args = if parsed.every.is_some() && is_future(tokens) { &of_futures } else { args };
            Some(quote!(#krate::perfmark(#args)))
        };
        return Ok(container::mark_items(&head, &body, &krate, &attribute));
    };
    let mark = mark(&parsed, &function.name);
    let function = unmarked(function);
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

/// The function without an earlier mark: its own attribute expands after the one of the enclosing `impl` or `mod`.
fn unmarked(mut function: Function) -> Function {
    let (inner_attributes, statements) = split_inner_attributes(function.body.stream());
    let statements = without_mark(&statements);
    function.body = with_content(&function.body, quote!(#inner_attributes #statements));
    function
}

/// Whether lints require a particular expression as the body (`clippy::non_canonical_clone_impl`,
/// `clippy::non_canonical_partial_ord_impl`). An `allow` on the function does not silence them, but they ignore a body
/// that comes from a macro.
fn is_checked_for_canonical_form(name: &Ident) -> bool {
    name == "clone" || name == "partial_cmp"
}

/// The statements without the code that an earlier mark added. These are its forms:
///
/// - `let perfmark_begun = …; let perfmark_value = match () { () => { statements } … }`
/// - `… private::mark! { … } '_perfmark: { statements }`
/// - `… private::polled! { { … } future }`, with or without `.await`
fn without_mark(statements: &[TokenTree]) -> TokenStream {
    if let Some(body) = marked_body(statements) {
        return body;
    }
    let (mut plain, mut rest, mut before) = (TokenStream::new(), statements, None);
    while let Some((first, after)) = rest.split_first() {
        if let Some((future, after)) = parse_own_macro(rest) {
            let future: Vec<TokenTree> = future.into_iter().collect();
            match (future.last(), after) {
                (Some(TokenTree::Group(block)), [_, await_]) if is_word(Some(await_), &["await"]) => {
                    plain.extend(block.stream());
                    return plain;
                }
                _ => plain.extend(future),
            }
            rest = after;
            continue;
        }
        plain.extend([match first {
            TokenTree::Group(group) if is_word(before, &["pin"]) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                TokenTree::Group(with_content(group, without_mark(&inside)))
            }
            first => first.clone(),
        }]);
        (before, rest) = (Some(first), after);
    }
    plain
}

/// If the tokens start with one of this crate's macros: the future in it, or the statements after `mark!`; and the
/// tokens that follow.
fn parse_own_macro(tokens: &[TokenTree]) -> Option<(TokenStream, &[TokenTree])> {
    let mut at = 0;
    // `::a::b`
    loop {
        if is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':') {
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
    let [bang, TokenTree::Group(group), after @ ..] = &tokens[at..] else { return None };
    if !is_word(Some(private), &["private"]) || !is_punct(Some(bang), '!') {
        return None;
    }
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    match &inside[..] {
        [TokenTree::Group(mark), future @ ..]
            if is_word(Some(called), &["polled"]) && is_mark(&mark.stream().into_iter().collect::<Vec<_>>()) =>
        {
            Some((future.iter().cloned().collect(), after))
        }
        mark => match after {
            [.., TokenTree::Group(body)] if is_word(Some(called), &["mark"]) && is_mark(mark) => {
                Some((body.stream(), &[]))
            }
            _ => None,
        },
    }
}

/// The original body, if the tokens start with a call as [`expand`] writes it.
fn marked_body(tokens: &[TokenTree]) -> Option<TokenStream> {
    let is_begin = is_word(tokens.first(), &["let"]) && is_word(tokens.get(1), &["perfmark_begun"]);
    if !is_begin {
        return None;
    }
    // `let perfmark_value: … = match () { () => { … } … }`
    let arms = tokens.windows(3).find_map(|tokens| match tokens {
        [match_, _, TokenTree::Group(arms)] if is_word(Some(match_), &["match"]) => Some(arms.stream()),
        _ => None,
    });
    match arms?.into_iter().nth(3)? {
        TokenTree::Group(body) => Some(body.stream()),
        _ => None,
    }
}

/// Whether the tokens are a mark as [`mark`] writes it. The check covers enough of them to rule out other code.
fn is_mark(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Literal(_), TokenTree::Group(events), TokenTree::Literal(_), is_fenced, ..]
        if events.delimiter() == Delimiter::Bracket && is_word(Some(is_fenced), &["true", "false"]))
}
