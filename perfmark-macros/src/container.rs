//! Containers of functions: `impl`, `trait` and inline `mod`. Each function and each container in them gets the
//! attribute, unless it has its own. An attribute that is not recognized (renamed, or in a `cfg_attr`) expands later
//! and takes precedence.

use std::iter::Peekable;
use std::vec;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Error;

use crate::tokens::{is_group, is_punct, with_content};

type Tokens = Peekable<vec::IntoIter<TokenTree>>;

/// The kind of an item, by its first keywords.
pub(crate) enum Kind {
    Container,
    Function,
    /// An item that cannot be marked.
    Other,
}

impl Kind {
    /// The kind of an item whose outer attributes have been removed.
    pub(crate) fn of(words: &[TokenTree]) -> Self {
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match word {
                // An ABI, or a `macro_rules` fragment (`$vis`), which is in a group without delimiters.
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

/// Adds the attribute to each function and each container in the item. `attribute` is the content of its brackets.
pub(crate) fn mark_items(head: &[TokenTree], body: &Group, attribute: &TokenStream) -> TokenStream {
    let mut tokens = body.stream().into_iter().collect::<Vec<_>>().into_iter().peekable();
    let mut marked = TokenStream::new();
    while tokens.peek().is_some() {
        let mut inner = attributes(&mut tokens);
        if let Some(TokenTree::Group(group)) = tokens.next_if(is_fragment) {
            tokens = inner.into_iter().chain(group.stream()).chain(tokens).collect::<Vec<_>>().into_iter().peekable();
            continue;
        }
        let item = item(&mut tokens);
        // The container's own attributes (`#![…]`) precede those of its first item.
        let end = inner.iter().rposition(|token| is_punct(Some(token), '!')).map_or(0, |mark| mark + 2);
        let outer = inner.split_off(end.min(inner.len()));
        marked.extend(inner);
        if is_marked(&item) && !is_marked_already(&outer) {
            marked.extend(attribute_at(&item, attribute));
        }
        marked.extend(outer);
        marked.extend(item);
    }
    let group = with_content(body, marked);
    let head = head.iter();
    quote!(#(#head)* #group)
}

/// Whether the token is a `macro_rules` fragment of a complete item (`$item:item`), a group without delimiters.
fn is_fragment(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let last = group.stream().into_iter().last();
    group.delimiter() == Delimiter::None && (is_punct(last.as_ref(), ';') || is_group(last.as_ref(), Delimiter::Brace))
}

/// The attribute with the location of the item's first token, which becomes the mark's line.
fn attribute_at(item: &[TokenTree], attribute: &TokenStream) -> TokenStream {
    let span = item.first().map_or_else(Span::call_site, TokenTree::span);
    quote_spanned!(span=> #[#attribute])
}

/// Whether the item gets the attribute. The user did not write it on this item, so items that it would refuse are left
/// out.
fn is_marked(item: &[TokenTree]) -> bool {
    is_group(item.last(), Delimiter::Brace) && !matches!(Kind::of(item), Kind::Other)
}

/// Whether one of the attributes is `#[perfmark(…)]`, by its own name. An item whose attribute has another name gets a
/// second one, and its own takes precedence. That fails on a container, and where a third attribute between the two
/// wraps the body.
fn is_marked_already(attributes: &[TokenTree]) -> bool {
    attributes.iter().any(|attribute| {
        let TokenTree::Group(group) = attribute else { return false };
        let is_path = |token: &TokenTree| matches!(token, TokenTree::Ident(_)) || is_punct(Some(token), ':');
        let last = group.stream().into_iter().take_while(is_path).last();
        matches!(last, Some(TokenTree::Ident(name)) if name == "perfmark")
    })
}

/// The attributes before an item, with the inner attributes of its container if they precede them.
fn attributes(tokens: &mut Tokens) -> Vec<TokenTree> {
    let mut attributes = Vec::new();
    while let Some(hash) = tokens.next_if(|token| is_punct(Some(token), '#')) {
        attributes.push(hash);
        attributes.extend(tokens.next_if(|token| is_punct(Some(token), '!')));
        attributes.extend(tokens.next());
    }
    attributes
}

/// One item. It ends at a semicolon, or at braces that the start of another item follows.
fn item(tokens: &mut Tokens) -> Vec<TokenTree> {
    let mut item = Vec::new();
    while let Some(token) = tokens.next() {
        let is_end = match &token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            // Punctuation follows braces in types (`Array<{ N }>`) and values (`A { b }.c`).
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

/// Splits the container into the tokens before its body and the body, which is the last token.
///
/// # Errors
///
/// For `mod name;`, whose items the compiler does not pass to the macro.
pub(crate) fn split_body(item: TokenStream) -> Result<(Vec<TokenTree>, Group), Error> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => Ok((tokens, body)),
        last => {
            let span = last.map_or_else(Span::call_site, |token| token.span());
            Err(Error::new(
                span,
                "only an inline `mod name { … }` can be marked: the attribute cannot see the items of another file",
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
