//! The parts of an async function's signature that are rewritten: attributes, arguments and result. They are found
//! without syn's tree: see `function`.

use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};

use crate::tokens::{is_punct, is_word, with_content};

/// The tokens before an async function's body.
pub(crate) struct Signature {
    /// The names of its attributes. For a path, this is the first segment.
    pub(crate) attributes: Vec<String>,
    /// Everything before the arguments except `async`.
    pub(crate) before: TokenStream,
    pub(crate) arguments: Group,
    /// None for `()`.
    pub(crate) result: Option<TokenStream>,
    /// `where …`
    pub(crate) bounds: TokenStream,
}

impl Signature {
    /// Returns `None` if the function is not async.
    pub(crate) fn parse(head: TokenStream) -> Option<Self> {
        let mut tokens = head.into_iter().peekable();
        let (mut attributes, mut before) = (Vec::new(), TokenStream::new());
        loop {
            match tokens.next()? {
                TokenTree::Ident(word) if word == "async" => break,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                    attributes.extend(group.stream().into_iter().next().map(|name| name.to_string()));
                    // The rewritten function does not trigger this lint.
                    let is_removed = |lint: &str| lint == "async_fn_in_trait";
                    before.extend([TokenTree::Group(without_expectation(group, is_removed))]);
                }
                token => before.extend([token]),
            }
        }
        let (arguments, result, bounds) = parse_after_name(&mut tokens, |token| before.extend([token]))?;
        Some(Self { attributes, before, arguments, result, bounds })
    }

    /// Whether all later attributes are built into the compiler, so that none can be a macro.
    pub(crate) fn has_plain_attributes(&self) -> bool {
        const PLAIN: [&str; 18] = [
            "allow",
            "cfg",
            "clippy",
            "cold",
            "deny",
            "deprecated",
            "doc",
            "expect",
            "forbid",
            "inline",
            "must_use",
            "optimize",
            "rustdoc",
            "rustfmt",
            "target_feature",
            "track_caller",
            "unsafe",
            "warn",
        ];
        self.attributes.iter().all(|name| PLAIN.contains(&name.as_str()))
    }

    /// The result's type as an expression may name it, with `_` for `impl Trait`. `None` if the result is `!`.
    pub(crate) fn named_result(&self) -> Option<TokenStream> {
        let Some(result) = &self.result else { return Some(quote!(())) };
        let is_never =
            matches!(&*result.clone().into_iter().collect::<Vec<_>>(), [TokenTree::Punct(one)] if one.as_char() == '!');
        (!is_never).then(|| without_impl(result.clone()))
    }
}

/// The type of a function's result, from the tokens before its body. `None` for `()`.
pub(crate) fn result(head: &TokenStream) -> Option<TokenStream> {
    let mut tokens = head.clone().into_iter();
    tokens.find(|token| is_word(Some(token), &["fn"]))?;
    parse_after_name(tokens, drop)?.1
}

/// A function's arguments, the type of its result, and its bounds, from the tokens after `fn`. Passes the tokens before
/// the arguments to `before`.
fn parse_after_name(
    mut tokens: impl Iterator<Item = TokenTree>,
    mut before: impl FnMut(TokenTree),
) -> Option<(Group, Option<TokenStream>, TokenStream)> {
    let mut depth = AngleDepth::default();
    let arguments = loop {
        match tokens.next()? {
            TokenTree::Group(group) if depth.is_outside() && group.delimiter() == Delimiter::Parenthesis => {
                break group;
            }
            token => {
                depth.pass(&token);
                before(token);
            }
        }
    };
    let (mut result, mut bounds) = (TokenStream::new(), TokenStream::new());
    for token in tokens {
        let is_where = is_word(Some(&token), &["where"]);
        if is_where || !bounds.is_empty() { bounds.extend([token]) } else { result.extend([token]) }
    }
    // `->`
    let result = result.into_iter().skip(2).collect::<TokenStream>();
    Some((arguments, Some(result).filter(|it| !it.is_empty()), bounds))
}

/// The nesting depth in `<…>`, which are not token groups.
#[derive(Default)]
struct AngleDepth {
    angles: i32,
    /// The previous token makes an arrow if `>` follows.
    after_minus: bool,
}

impl AngleDepth {
    fn is_outside(&self) -> bool {
        self.angles == 0
    }

    fn pass(&mut self, token: &TokenTree) {
        let TokenTree::Punct(punct) = token else {
            self.after_minus = false;
            return;
        };
        match punct.as_char() {
            '<' => self.angles += 1,
            '>' if !self.after_minus => self.angles -= 1,
            _ => {}
        }
        self.after_minus = matches!(punct.as_char(), '-' | '=') && punct.spacing() == Spacing::Joint;
    }
}

/// Splits at the commas that are outside `<…>`.
fn split_at_commas(tokens: TokenStream) -> Vec<TokenStream> {
    let (mut parts, mut part, mut depth) = (Vec::new(), TokenStream::new(), AngleDepth::default());
    for token in tokens {
        if depth.is_outside() && matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',') {
            parts.push(std::mem::take(&mut part));
            continue;
        }
        depth.pass(&token);
        part.extend([token]);
    }
    parts.extend(Some(part).filter(|part| !part.is_empty()));
    parts
}

/// A type with `_` for each `impl Trait` in it.
fn without_impl(tokens: TokenStream) -> TokenStream {
    let (mut without, mut depth, mut hidden) = (TokenStream::new(), AngleDepth::default(), None);
    for token in tokens {
        if let Some(begin) = hidden {
            let is_end = match &token {
                TokenTree::Punct(punct) => {
                    depth.angles == begin && matches!(punct.as_char(), ',' | ';' | '>') && !depth.after_minus
                }
                _ => false,
            };
            if !is_end {
                depth.pass(&token);
                continue;
            }
            hidden = None;
        }
        depth.pass(&token);
        match token {
            TokenTree::Ident(word) if word == "impl" => {
                hidden = Some(depth.angles);
                without.extend(quote!(_));
            }
            TokenTree::Group(group) => {
                let inside = without_impl(group.stream());
                let is_hidden = group.delimiter() == Delimiter::Parenthesis && inside.to_string() == "_";
                // The parentheses only grouped the bounds.
                without.extend(if is_hidden { inside } else { with_content(&group, inside).into_token_stream() });
            }
            token => token.to_tokens(&mut without),
        }
    }
    without
}

/// The arguments of the rewritten function, and the statements that move them into its future. As in an async function,
/// all arguments are moved, also unused ones, and are dropped after the body's variables.
pub(crate) fn move_in(arguments: &Group) -> (Group, TokenStream) {
    let (mut outer, mut statements) = (TokenStream::new(), TokenStream::new());
    for (n, argument) in split_at_commas(arguments.stream()).into_iter().enumerate() {
        let argument = Argument::parse(argument);
        let Argument { pattern, annotation, .. } = &argument;
        // The argument appears twice. Each `expect` applies at one of the two locations.
        let is_of_binding = |lint: &str| lint.starts_with("unused");
        let outer_attributes = argument.attributes(is_of_binding);
        let attributes = argument.attributes(|lint| !is_of_binding(lint));
        match argument.kind() {
            Kind::Receiver(receiver) => {
                let attributes = &argument.attributes;
                outer.extend(quote!(#(#attributes)* #pattern #annotation,));
                // A reference to all of `self` makes the future capture all of it, not only the fields in use.
                statements.extend(quote!(_ = &#receiver;));
            }
            Kind::Name(name) => {
                outer.extend(quote!(#outer_attributes #name #annotation,));
                statements.extend(quote_spanned!(argument.span()=> #attributes let #pattern = #name;));
            }
            Kind::Unused => {
                let name = format_ident!("__arg{n}", span = Span::mixed_site());
                outer.extend(quote!(#outer_attributes #name #annotation,));
                statements.extend(quote!(#attributes let #name = #name;));
                // Lints report `let _name = …` as useless.
                statements.extend(quote_spanned!(argument.span()=> #attributes let (#pattern,) = (#name,);));
            }
            Kind::Pattern => {
                let name = format_ident!("__arg{n}", span = Span::mixed_site());
                outer.extend(quote!(#outer_attributes #name #annotation,));
                statements.extend(quote!(#attributes let #name = #name;));
                statements.extend(quote_spanned!(argument.span()=> #attributes let #pattern = #name;));
            }
        }
    }
    (with_content(arguments, outer), statements)
}

/// An argument: `#[attribute] pattern: type`, or a receiver.
struct Argument {
    attributes: Vec<TokenTree>,
    pattern: TokenStream,
    /// The type with its colon.
    annotation: TokenStream,
}

enum Kind {
    Receiver(Ident),
    Name(Ident),
    /// A name that starts with `_`.
    Unused,
    Pattern,
}

impl Argument {
    fn parse(tokens: TokenStream) -> Self {
        let mut tokens = tokens.into_iter().peekable();
        let mut attributes = Vec::new();
        while let Some(hash) = tokens.next_if(|token| is_punct(Some(token), '#')) {
            attributes.push(hash);
            attributes.extend(tokens.next());
        }
        let (mut pattern, mut annotation, mut in_path) = (TokenStream::new(), TokenStream::new(), false);
        while let Some(token) = tokens.next() {
            let is_colon = is_punct(Some(&token), ':') && !in_path;
            let is_joint = matches!(&token, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint);
            // The first colon of `::`. That of `x:&u8` is joint, too.
            in_path = is_colon && is_joint && is_punct(tokens.peek(), ':');
            if !annotation.is_empty() || is_colon && !in_path {
                annotation.extend([token]);
            } else {
                pattern.extend([token]);
            }
        }
        Self { attributes, pattern, annotation }
    }

    /// The location at which the compiler reports errors of this argument.
    fn span(&self) -> Span {
        let last = self.pattern.clone().into_iter().last();
        Span::call_site().located_at(last.map_or_else(Span::call_site, |token| token.span()))
    }

    /// Its attributes, with `allow` instead of `expect` for the lints selected by `is_removed`.
    fn attributes(&self, is_removed: impl Fn(&str) -> bool) -> TokenStream {
        let without = |token: &TokenTree| match token {
            TokenTree::Group(group) => TokenTree::Group(without_expectation(group.clone(), &is_removed)),
            token => token.clone(),
        };
        self.attributes.iter().map(without).collect()
    }

    fn kind(&self) -> Kind {
        let tokens: Vec<TokenTree> = self.pattern.clone().into_iter().collect();
        match &tokens[..] {
            [.., TokenTree::Ident(last)] if last == "self" => Kind::Receiver(last.clone()),
            [TokenTree::Ident(name)] if name == "_" => Kind::Pattern,
            [.., TokenTree::Ident(name)] if tokens.len() <= 2 && name.to_string().starts_with('_') => Kind::Unused,
            [TokenTree::Ident(name)] => Kind::Name(name.clone()),
            [TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mut" => Kind::Name(name.clone()),
            _ => Kind::Pattern,
        }
    }
}

/// The content of an attribute's brackets, with `allow(…)` instead of `expect(…)` if it expects a lint selected by
/// `is_removed`.
fn without_expectation(attribute: Group, is_removed: impl Fn(&str) -> bool) -> Group {
    let mut tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    let [TokenTree::Ident(word), TokenTree::Group(lints)] = &mut tokens[..] else { return attribute };
    let names = |token| matches!(&token, TokenTree::Ident(lint) if is_removed(&lint.to_string()));
    if word != "expect" || !lints.stream().into_iter().any(names) {
        return attribute;
    }
    *word = Ident::new("allow", word.span());
    with_content(&attribute, tokens.into_iter().collect())
}
