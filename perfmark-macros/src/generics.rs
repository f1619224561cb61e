//! Whether functions may be generic, as far as their tokens show it. `generic` has no effect on other functions.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::container::{Kind, items};
use crate::tokens::{is_punct, is_word, may_contain_impl};

/// Whether a function in the container may be generic, also because it has no functions yet.
pub(crate) fn may_be_in(head: &[TokenTree], body: &Group) -> bool {
    // A trait's default methods are generic over `Self`.
    if head.iter().any(|token| is_word(Some(token), &["trait"])) || has_parameters(head, "impl") {
        return true;
    }
    let (mut is_empty, mut may_be) = (true, false);
    for item in items(body.stream()) {
        let Some((TokenTree::Group(body), head)) = item.tokens.split_last() else { continue };
        may_be |= match Kind::of(&item.tokens) {
            Kind::Function => has_parameters(head, "fn") || has_impl_argument(head),
            Kind::Container => may_be_in(head, body),
            Kind::Other => continue,
        };
        is_empty = false;
    }
    is_empty || may_be
}

/// Whether type or constant parameters follow the keyword, and the function's name.
fn has_parameters(head: &[TokenTree], keyword: &str) -> bool {
    let mut tokens = head.iter().skip_while(|token| !is_word(Some(token), &[keyword])).skip(1).peekable();
    if keyword == "fn" {
        tokens.next();
    }
    match tokens.next() {
        Some(TokenTree::Punct(angle)) if angle.as_char() == '<' => {}
        // A `macro_rules` fragment may contain anything.
        Some(TokenTree::Group(group)) => return group.delimiter() == Delimiter::None,
        _ => return false,
    }
    // Only lifetimes begin with an apostrophe.
    let mut is_start = true;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '>' => return false,
            TokenTree::Punct(punct) if punct.as_char() == ',' => is_start = true,
            _ if !is_start => {}
            token if is_punct(Some(token), '#') => _ = tokens.next(),
            token if is_punct(Some(token), '\'') => is_start = false,
            _ => return true,
        }
    }
    false
}

/// Whether an argument's type may be `impl Trait`.
fn has_impl_argument(head: &[TokenTree]) -> bool {
    let groups = head.iter().filter(|token| matches!(token, TokenTree::Group(_)));
    may_contain_impl(&groups.cloned().collect::<TokenStream>())
}
