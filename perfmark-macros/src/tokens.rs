//! Predicates on tokens.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

pub(crate) fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

/// Whether the token is one of these words.
pub(crate) fn is_word(token: Option<&TokenTree>, words: &[&str]) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if words.iter().any(|known| word == known))
}

pub(crate) fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

/// The token as a group in braces, also as a `macro_rules` fragment (`$body:block`), a group without delimiters.
pub(crate) fn braces(token: &TokenTree) -> Option<Group> {
    let TokenTree::Group(group) = token else { return None };
    match group.delimiter() {
        Delimiter::Brace => Some(group.clone()),
        Delimiter::None => {
            let mut inside = group.stream().into_iter();
            inside.next().filter(|_| inside.next().is_none()).as_ref().and_then(braces)
        }
        _ => None,
    }
}

/// Whether these are the brackets of `#[unsafe(naked)]`, perhaps in a `cfg_attr`.
pub(crate) fn is_naked(attribute: &TokenTree) -> bool {
    fn has_naked(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => has_naked(group.stream()),
            word => is_word(Some(&word), &["naked"]),
        })
    }
    let TokenTree::Group(attribute) = attribute else { return false };
    let name = attribute.stream().into_iter().next();
    is_word(name.as_ref(), &["unsafe", "cfg_attr"]) && has_naked(attribute.stream())
}

/// Whether the tokens contain `impl`, or a macro that may expand to it. A `!` can also be the type.
pub(crate) fn may_contain_impl(tokens: &TokenStream) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => may_contain_impl(&group.stream()),
        token => is_word(Some(&token), &["impl"]) || is_punct(Some(&token), '!'),
    })
}

/// The group with other tokens in place of its own.
pub(crate) fn with_content(group: &Group, tokens: TokenStream) -> Group {
    let mut changed = Group::new(group.delimiter(), tokens);
    changed.set_span(group.span());
    changed
}
