//! Containers of functions: `impl`, `trait` and inline `mod`. Each function and each container in them gets the
//! attribute, unless it has its own. If its own is in a `cfg_attr`, it gets both: the compiler resolves `cfg_attr`
//! before it expands an item's first attribute, so the container's attribute sees the item's own one and yields to it.
//! Items are found without syn's tree: see `function`.

use std::iter::Peekable;
use std::vec;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Error;

use crate::tokens::{braces, is_group, is_naked, is_punct, is_word, with_content};

type Tokens = Peekable<vec::IntoIter<TokenTree>>;

/// The kind of an item, by its first words.
pub(crate) enum Kind {
    Container,
    Function {
        name: Ident,
        is_async: bool,
    },
    /// An item that cannot be marked, and why.
    Other(Error),
}

impl Kind {
    /// The kind of an item whose outer attributes have been removed.
    pub(crate) fn of(words: &[TokenTree]) -> Self {
        let (mut words, mut is_async, mut constant) = (words.iter().peekable(), false, None);
        while let Some(token) = words.next() {
            match token {
                // An ABI, or a `macro_rules` fragment (`$vis`), which is in a group without delimiters.
                TokenTree::Literal(_) => {}
                TokenTree::Group(group) if group.delimiter() == Delimiter::None => {}
                TokenTree::Ident(word) => match (&*word.to_string(), constant) {
                    ("fn", None) => match words.next() {
                        Some(TokenTree::Ident(name)) => return Self::Function { name: name.clone(), is_async },
                        _ => return Self::other(word.span()),
                    },
                    ("fn", Some(span)) => {
                        let why =
                            "a `const fn` cannot be marked: it may run at compile time, where there are no counters";
                        return Self::Other(Error::new(span, why));
                    }
                    ("impl" | "mod" | "trait", None) => return Self::Container,
                    ("pub", _) => _ = words.next_if(|next| matches!(next, TokenTree::Group(_))),
                    ("unsafe" | "safe" | "extern" | "default" | "auto", _) => {}
                    ("async", _) => is_async = true,
                    ("const", None) => constant = Some(word.span()),
                    _ => return Self::other(constant.unwrap_or(word.span())),
                },
                _ => return Self::other(constant.unwrap_or(token.span())),
            }
        }
        Self::other(Span::call_site())
    }

    fn other(span: Span) -> Self {
        let why = "`#[perfmark]` applies to a function or method with a body, an `impl`, a `trait` or an inline `mod`";
        Self::Other(Error::new(span, why))
    }
}

/// An item in a container.
struct Item {
    /// The container's own attributes (`#![…]`), which precede those of its first item.
    inner: Vec<TokenTree>,
    attributes: Vec<TokenTree>,
    /// The item without its attributes.
    tokens: Vec<TokenTree>,
}

/// The items in a container's body.
fn items(body: TokenStream) -> Vec<Item> {
    let mut tokens = body.into_iter().collect::<Vec<_>>().into_iter().peekable();
    let mut items = Vec::new();
    while tokens.peek().is_some() {
        let mut inner = attributes(&mut tokens);
        if let Some(TokenTree::Group(group)) = tokens.next_if(is_fragment) {
            tokens = inner.into_iter().chain(group.stream()).chain(tokens).collect::<Vec<_>>().into_iter().peekable();
            continue;
        }
        let end = inner.iter().rposition(|token| is_punct(Some(token), '!')).map_or(0, |mark| mark + 2);
        let attributes = inner.split_off(end.min(inner.len()));
        items.push(Item { inner, attributes, tokens: item(&mut tokens) });
    }
    items
}

/// Adds the attribute, if there is one, to each function and each container in the item. `attribute` returns the
/// content of its brackets for an item without attributes. The items' own attributes then require no import.
pub(crate) fn mark_items(
    head: &[TokenTree],
    body: &Group,
    krate: &TokenStream,
    attribute: &dyn Fn(&[TokenTree]) -> Option<TokenStream>,
) -> TokenStream {
    let mut marked = TokenStream::new();
    for Item { inner, attributes, tokens } in items(body.stream()) {
        marked.extend(inner);
        let is_unmarked = |token: &TokenTree| own_attribute(token).is_some() || is_naked(token);
        if is_marked(&tokens) && !attributes.iter().any(is_unmarked) {
            marked.extend(attribute(&tokens).map(|attribute| attribute_at(&tokens, &attribute)));
        }
        marked.extend(attributes.into_iter().map(|token| with_path(token, krate)));
        marked.extend(tokens);
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
    item.last().and_then(braces).is_some() && !matches!(Kind::of(item), Kind::Other(_))
}

/// `#[perfmark(…)]`, recognized by its own name. An item whose attribute has another name is marked twice.
struct OwnAttribute {
    /// The tokens of the path before `perfmark`.
    path: Vec<TokenTree>,
    /// `perfmark`
    name: TokenTree,
    arguments: Vec<TokenTree>,
}

/// The attribute whose brackets this token is.
fn own_attribute(token: &TokenTree) -> Option<OwnAttribute> {
    let TokenTree::Group(group) = token else { return None };
    let mut path: Vec<TokenTree> = group.stream().into_iter().collect();
    // A `macro_rules` fragment (`$meta:meta`).
    if let [TokenTree::Group(fragment)] = &path[..]
        && fragment.delimiter() == Delimiter::None
    {
        path = fragment.stream().into_iter().collect();
    }
    let is_path = |token: &TokenTree| matches!(token, TokenTree::Ident(_)) || is_punct(Some(token), ':');
    let end = path.iter().position(|token| !is_path(token)).unwrap_or(path.len());
    let arguments = path.split_off(end);
    let name = path.pop().filter(|name| is_word(Some(name), &["perfmark"]))?;
    Some(OwnAttribute { path, name, arguments })
}

/// The token. If it is the brackets of `#[perfmark(…)]`, with the path of the crate.
pub(crate) fn with_path(token: TokenTree, krate: &TokenStream) -> TokenTree {
    match (own_attribute(&token), &token) {
        (Some(OwnAttribute { path, name, arguments }), TokenTree::Group(group)) if path.is_empty() => {
            TokenTree::Group(with_content(group, quote!(#krate::#name #(#arguments)*)))
        }
        _ => token,
    }
}

/// The location of the item's first own attribute, and whether it is `#[perfmark(skip)]`.
pub(crate) fn own_mark(attributes: &[TokenTree]) -> Option<(Span, bool)> {
    let OwnAttribute { name, arguments, .. } = attributes.iter().find_map(own_attribute)?;
    let is_skip = matches!(&arguments[..], [TokenTree::Group(arguments)] if is_skip(&arguments.stream()));
    Some((name.span(), is_skip))
}

/// `#[perfmark(skip)]`
pub(crate) fn is_skip(args: &TokenStream) -> bool {
    let mut words = args.clone().into_iter();
    matches!((words.next(), words.next()), (Some(TokenTree::Ident(word)), None) if word == "skip")
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
            token if braces(token).is_some() => match tokens.peek() {
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

/// The attributes before the item, and the item without them.
pub(crate) fn split_attributes(item: &TokenStream) -> (Vec<TokenTree>, Vec<TokenTree>) {
    let mut tokens = item.clone().into_iter().collect::<Vec<_>>().into_iter().peekable();
    let attributes = attributes(&mut tokens);
    (attributes, tokens.collect())
}
