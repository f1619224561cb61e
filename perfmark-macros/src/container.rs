//! What holds functions: an `impl`, a `trait` or an inline `mod`. Each function in it, and each such item, is given the attribute, which then
//! decides there: so a function's own attribute comes after it, in whatever form it is written, and has the last word.

use std::iter::Peekable;
use std::vec;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Error;

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
        let (attributes, item) = (attributes(&mut tokens), item(&mut tokens));
        if is_marked(&item) {
            marked.extend(at(&item, attribute));
        }
        marked.extend(attributes);
        marked.extend(item);
    }
    let mut group = Group::new(body.delimiter(), marked);
    group.set_span(body.span());
    let head = head.iter();
    quote!(#(#head)* #group)
}

/// The attribute, standing where the item begins: that is the mark's line.
fn at(item: &[TokenTree], attribute: &TokenStream) -> TokenStream {
    let span = item.first().map_or_else(Span::call_site, TokenTree::span);
    quote_spanned!(span=> #[#attribute])
}

/// Whether the attribute goes on it: nobody wrote it there, and so nothing that it would refuse.
fn is_marked(item: &[TokenTree]) -> bool {
    let has_body = matches!(item.last(), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace);
    has_body && !matches!(Kind::of(item), Kind::Other)
}

/// The attributes at the beginning of an item, and inner ones of what is around it.
fn attributes(tokens: &mut Tokens) -> Vec<TokenTree> {
    let is = |token: &TokenTree, mark: char| matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark);
    let mut attributes = Vec::new();
    while let Some(hash) = tokens.next_if(|token| is(token, '#')) {
        attributes.push(hash);
        attributes.extend(tokens.next_if(|token| is(token, '!')));
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
