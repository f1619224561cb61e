//! The marked function, taken apart only as far as needed: its name, and where its body begins.
//!
//! A function's body is the last group of its tokens, so that nothing in between (generics, patterns, types) has to be understood; that
//! keeps this crate's build small, and the user's code as it was written.

use std::slice;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::Error;

pub(crate) struct Function {
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    /// Everything before the body.
    pub(crate) head: TokenStream,
    pub(crate) body: Group,
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> syn::Result<Self> {
        let mut tokens: Vec<TokenTree> = item.into_iter().collect();
        let (name, is_async) = Self::name(&tokens)?;
        match tokens.pop().and_then(braces) {
            Some(body) => Ok(Self { name, is_async, head: tokens.into_iter().collect(), body }),
            None => Err(Error::new(
                name.span(),
                "a function without a body makes no calls: put #[perfmark] on its implementations",
            )),
        }
    }

    /// Steps over attributes and qualifiers to `fn NAME`; and whether `async` was among them.
    fn name(tokens: &[TokenTree]) -> syn::Result<(Ident, bool)> {
        let (mut rest, mut is_async) = (tokens.iter(), false);
        while let Some(token) = rest.next() {
            let TokenTree::Ident(word) = token else {
                match token {
                    // `#[attribute]`, the ABI's name, and what a `macro_rules` fragment wraps in an invisible group (`$vis`).
                    TokenTree::Punct(hash) if hash.as_char() == '#' => _ = rest.next(),
                    TokenTree::Literal(_) => {}
                    TokenTree::Group(group) if group.delimiter() == Delimiter::None => {}
                    _ => return Err(not_a_function(token.span())),
                }
                continue;
            };
            match word.to_string().as_str() {
                "fn" => match rest.next() {
                    Some(TokenTree::Ident(name)) => return Ok((name.clone(), is_async)),
                    _ => return Err(not_a_function(word.span())),
                },
                "pub" => {
                    // `pub(crate)`
                    let mut ahead = rest.clone();
                    if matches!(ahead.next(), Some(TokenTree::Group(_))) {
                        rest = ahead;
                    }
                }
                "unsafe" | "safe" | "extern" | "default" => {}
                "const" if is_function(&rest) => {
                    let why = "a const fn cannot be marked: it may run in the compiler, where there is no counter";
                    return Err(Error::new(word.span(), why));
                }
                "async" => is_async = true,
                _ => return Err(not_a_function(word.span())),
            }
        }
        Err(not_a_function(Span::call_site()))
    }
}

/// The group in braces that a token is, or that a `macro_rules` fragment wraps in an invisible group (`$body:block`).
pub(crate) fn braces(token: TokenTree) -> Option<Group> {
    let TokenTree::Group(group) = token else { return None };
    match group.delimiter() {
        Delimiter::Brace => Some(group),
        Delimiter::None => {
            let mut inside = group.stream().into_iter();
            inside.next().filter(|_| inside.next().is_none()).and_then(braces)
        }
        _ => None,
    }
}

/// Whether `fn` comes before anything that a constant would have.
fn is_function(rest: &slice::Iter<'_, TokenTree>) -> bool {
    rest.clone()
        .take_while(|token| matches!(token, TokenTree::Ident(_) | TokenTree::Literal(_)))
        .any(|token| matches!(token, TokenTree::Ident(word) if word == "fn"))
}

fn not_a_function(span: Span) -> Error {
    Error::new(span, "#[perfmark] goes on a function or method with a body, an impl, a trait or an inline mod")
}
