//! What holds functions: an `impl`, a `trait` or an inline `mod`. Each function in it, and each such item, is given the attribute, if it has none
//! of its own. A function's own that is not seen (renamed, or in a `cfg_attr`) comes after it, and has the last word.

use std::iter::Peekable;
use std::vec;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Error;

use crate::tokens::{is, is_group, refilled};

type Tokens = Peekable<vec::IntoIter<TokenTree>>;

/// What an item is, by its first words.
pub(crate) enum Kind {
    Container,
    /// What the attribute may go on.
    Function,
    /// What it may not go on.
    Other,
}

impl Kind {
    /// Of an item without the attributes before it.
    pub(crate) fn of(words: &[TokenTree]) -> Self {
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match word {
                // An ABI, and what a `macro_rules` fragment wraps in an invisible group (`$vis`).
                TokenTree::Literal(_) => {}
                TokenTree::Group(group) if group.delimiter() == Delimiter::None => {}
                TokenTree::Ident(word) => match &*word.to_string() {
                    "fn" => return Self::Function,
                    "impl" | "mod" | "trait" => return Self::Container,
                    "pub" => _ = words.next_if(|next| matches!(next, TokenTree::Group(_))),
                    "async" | "unsafe" | "safe" | "extern" | "default" | "auto" => {}
                    _ => return Self::Other,
                },
                _ => return Self::Other,
            }
        }
        Self::Other
    }
}

/// Gives each function and each container in the item the attribute, of which this is what stands in the brackets.
pub(crate) fn mark_all(head: &[TokenTree], body: &Group, attribute: &TokenStream) -> TokenStream {
    let mut tokens = body.stream().into_iter().collect::<Vec<_>>().into_iter().peekable();
    let mut marked = TokenStream::new();
    while tokens.peek().is_some() {
        let mut inner = attributes(&mut tokens);
        if let Some(TokenTree::Group(group)) = tokens.next_if(is_fragment) {
            tokens = inner.into_iter().chain(group.stream()).chain(tokens).collect::<Vec<_>>().into_iter().peekable();
            continue;
        }
        let item = item(&mut tokens);
        // Those of the container itself (`#![…]`) come first, before any of an item.
        let end = inner.iter().rposition(|token| is(Some(token), '!')).map_or(0, |mark| mark + 2);
        let outer = inner.split_off(end.min(inner.len()));
        marked.extend(inner);
        if is_marked(&item) && !is_marked_already(&outer) {
            marked.extend(at(&item, attribute));
        }
        marked.extend(outer);
        marked.extend(item);
    }
    let group = refilled(body, marked);
    let head = head.iter();
    quote!(#(#head)* #group)
}

/// Whether that is a whole item, which a `macro_rules` fragment wraps in an invisible group (`$item:item`).
fn is_fragment(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let last = group.stream().into_iter().last();
    group.delimiter() == Delimiter::None && (is(last.as_ref(), ';') || is_group(last.as_ref(), Delimiter::Brace))
}

/// The attribute, standing where the item begins: that is the mark's line.
fn at(item: &[TokenTree], attribute: &TokenStream) -> TokenStream {
    let span = item.first().map_or_else(Span::call_site, TokenTree::span);
    quote_spanned!(span=> #[#attribute])
}

/// Whether the attribute goes on it: nobody wrote it there, and so nothing that it would refuse.
fn is_marked(item: &[TokenTree]) -> bool {
    is_group(item.last(), Delimiter::Brace) && !matches!(Kind::of(item), Kind::Other)
}

/// Whether one of the attributes is `#[perfmark(…)]`, by its own name. What has one of another name gets a second, and then its own has the last
/// word; but not where a third stands between the two and wraps the body, nor on a container.
fn is_marked_already(attributes: &[TokenTree]) -> bool {
    attributes.iter().any(|attribute| {
        let TokenTree::Group(group) = attribute else { return false };
        let is_path = |token: &TokenTree| matches!(token, TokenTree::Ident(_)) || is(Some(token), ':');
        let last = group.stream().into_iter().take_while(is_path).last();
        matches!(last, Some(TokenTree::Ident(name)) if name == "perfmark")
    })
}

/// The attributes at the beginning of an item, and inner ones of what is around it.
fn attributes(tokens: &mut Tokens) -> Vec<TokenTree> {
    let mut attributes = Vec::new();
    while let Some(hash) = tokens.next_if(|token| is(Some(token), '#')) {
        attributes.push(hash);
        attributes.extend(tokens.next_if(|token| is(Some(token), '!')));
        attributes.extend(tokens.next());
    }
    attributes
}

/// One item: up to a semicolon, or to braces behind which another item begins.
fn item(tokens: &mut Tokens) -> Vec<TokenTree> {
    let mut item = Vec::new();
    while let Some(token) = tokens.next() {
        let is_end = match &token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            // Braces in types (`Array<{ N }>`) and values (`A { b }.c`) are followed by signs.
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => match tokens.peek() {
                None | Some(TokenTree::Ident(_)) => true,
                Some(TokenTree::Punct(punct)) => punct.as_char() == '#',
                Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::None,
                Some(TokenTree::Literal(_)) => false,
            },
            _ => false,
        };
        item.push(token);
        if is_end {
            break;
        }
    }
    item
}

/// The container's body, which is the last of its tokens, and what stands before it.
///
/// # Errors
///
/// For `mod name;`, whose items the compiler does not show.
pub(crate) fn take_apart(item: TokenStream) -> Result<(Vec<TokenTree>, Group), Error> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => Ok((tokens, body)),
        last => {
            let span = last.map_or_else(Span::call_site, |token| token.span());
            Err(Error::new(
                span,
                "only an inline `mod name { … }` can be marked: the attribute does not see a file's items",
            ))
        }
    }
}

/// The item without the attributes before it.
pub(crate) fn without_attributes(item: &TokenStream) -> Vec<TokenTree> {
    let mut tokens = item.clone().into_iter().collect::<Vec<_>>().into_iter().peekable();
    attributes(&mut tokens);
    tokens.collect()
}
