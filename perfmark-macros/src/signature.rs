//! A function's signature, taken apart where an async one has to be rewritten: its attributes, arguments and result.

use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};

use crate::tokens::{is, is_word, refilled};

/// The tokens before an async function's body.
pub(crate) struct Signature {
    /// The names of its attributes; a path's are its first word.
    pub(crate) attributes: Vec<String>,
    /// Everything before the arguments, but for `async`.
    pub(crate) before: TokenStream,
    pub(crate) arguments: Group,
    /// None for `()`.
    pub(crate) result: Option<TokenStream>,
    /// `where …`
    pub(crate) bounds: TokenStream,
}

impl Signature {
    /// None if it is not that of an async function.
    pub(crate) fn parse(head: TokenStream) -> Option<Self> {
        let mut tokens = head.into_iter().peekable();
        let (mut attributes, mut before) = (Vec::new(), TokenStream::new());
        loop {
            match tokens.next()? {
                TokenTree::Ident(word) if word == "async" => break,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                    attributes.extend(group.stream().into_iter().next().map(|name| name.to_string()));
                    // Lints of async functions, of which clippy has some, do not see it.
                    let is_gone = |lint: &str| ["async_fn_in_trait", "clippy"].contains(&lint);
                    before.extend([TokenTree::Group(without_expectation(group, is_gone))]);
                }
                token => before.extend([token]),
            }
        }
        let (arguments, result, bounds) = behind_name(&mut tokens, |token| before.extend([token]))?;
        Some(Self { attributes, before, arguments, result, bounds })
    }

    /// Whether only the compiler's own attributes come after ours, and none that another macro may expand.
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

    /// Leave for the lints that the function draws when it is not async any more; only where it does, as a crate may forbid to give it.
    pub(crate) fn draws(&self) -> TokenStream {
        let is_must_use = self.attributes.iter().any(|name| name == "must_use");
        let words = self.result.clone().into_iter().flatten().map(|token| token.to_string());
        let returns_future =
            |word: String| word.ends_with("Future") || ["JoinHandle", "Pin", "Ready"].contains(&&*word);
        let must_use = is_must_use.then(|| quote!(#[allow(clippy::double_must_use)]));
        let yields = words.into_iter().any(returns_future).then(|| quote!(#[allow(clippy::async_yields_async)]));
        quote!(#must_use #yields)
    }

    /// The result's type as an expression may name it: with `_` for `impl Trait`. None if it never returns.
    pub(crate) fn named_result(&self) -> Option<TokenStream> {
        let Some(result) = &self.result else { return Some(quote!(())) };
        let is_never =
            matches!(&*result.clone().into_iter().collect::<Vec<_>>(), [TokenTree::Punct(one)] if one.as_char() == '!');
        (!is_never).then(|| without_impl(result.clone()))
    }
}

/// The type of a function's result, whose tokens before its body these are. None for `()`.
pub(crate) fn result(head: &TokenStream) -> Option<TokenStream> {
    let mut tokens = head.clone().into_iter();
    tokens.find(|token| is_word(Some(token), &["fn"]))?;
    behind_name(tokens, drop)?.1
}

/// A function's arguments, the type of its result, and its bounds, from the tokens behind `fn`; those before the
/// arguments are given to `before`.
fn behind_name(
    mut tokens: impl Iterator<Item = TokenTree>,
    mut before: impl FnMut(TokenTree),
) -> Option<(Group, Option<TokenStream>, TokenStream)> {
    let mut depth = Depth::default();
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

/// How deep in `<…>`, which are no groups of tokens.
#[derive(Default)]
struct Depth {
    angles: i32,
    /// The token before may make an arrow of `>`.
    after_minus: bool,
}

impl Depth {
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

/// Splits at the commas that stand in no `<…>`.
fn split_at_commas(tokens: TokenStream) -> Vec<TokenStream> {
    let (mut parts, mut part, mut depth) = (Vec::new(), TokenStream::new(), Depth::default());
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
    let (mut without, mut depth, mut hidden) = (TokenStream::new(), Depth::default(), None);
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
                // Its parentheses were for the bounds.
                without.extend(if is_hidden { inside } else { refilled(&group, inside).into_token_stream() });
            }
            token => token.to_tokens(&mut without),
        }
    }
    without
}

/// The arguments as a function that is not async has them, and the statements that put them into its future as an async one does: all of them, the
/// unused ones, too, to be dropped behind the body's own variables.
pub(crate) fn move_in(arguments: &Group) -> (Group, TokenStream) {
    let (mut outer, mut statements) = (TokenStream::new(), TokenStream::new());
    for (n, argument) in split_at_commas(arguments.stream()).into_iter().enumerate() {
        let argument = Argument::parse(argument);
        let Argument { pattern, of_type, .. } = &argument;
        // Each has its lints at one of its places.
        let is_of_binding = |lint: &str| lint.starts_with("unused");
        let outer_attributes = argument.attributes(is_of_binding);
        let attributes = argument.attributes(|lint| !is_of_binding(lint));
        match argument.kind() {
            Kind::Receiver(receiver) => {
                let attributes = &argument.attributes;
                outer.extend(quote!(#(#attributes)* #pattern #of_type,));
                // Mentioned as a whole, so that it is captured as a whole.
                statements.extend(quote!(_ = &#receiver;));
            }
            Kind::Name(name) => {
                outer.extend(quote!(#outer_attributes #name #of_type,));
                statements.extend(quote_spanned!(argument.place()=> #attributes let #pattern = #name;));
            }
            Kind::Unused => {
                let name = format_ident!("__arg{n}", span = Span::mixed_site());
                outer.extend(quote!(#outer_attributes #name #of_type,));
                statements.extend(quote!(#attributes let #name = #name;));
                // Not `let _name = …`, which lints find to be of no use.
                statements.extend(quote_spanned!(argument.place()=> #attributes let (#pattern,) = (#name,);));
            }
            Kind::Pattern => {
                let name = format_ident!("__arg{n}", span = Span::mixed_site());
                outer.extend(quote!(#outer_attributes #name #of_type,));
                statements.extend(quote!(#attributes let #name = #name;));
                statements.extend(quote_spanned!(argument.place()=> #attributes let #pattern = #name;));
            }
        }
    }
    (refilled(arguments, outer), statements)
}

/// `#[attribute] pattern: type`, or a receiver.
struct Argument {
    attributes: Vec<TokenTree>,
    pattern: TokenStream,
    /// With its colon.
    of_type: TokenStream,
}

enum Kind {
    Receiver(Ident),
    Name(Ident),
    /// One that begins with `_`.
    Unused,
    Pattern,
}

impl Argument {
    fn parse(tokens: TokenStream) -> Self {
        let mut tokens = tokens.into_iter().peekable();
        let mut attributes = Vec::new();
        while let Some(hash) = tokens.next_if(|token| is(Some(token), '#')) {
            attributes.push(hash);
            attributes.extend(tokens.next());
        }
        let (mut pattern, mut of_type, mut in_path) = (TokenStream::new(), TokenStream::new(), false);
        for token in tokens {
            let is_colon = is(Some(&token), ':');
            let is_joint = matches!(&token, TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint);
            if !of_type.is_empty() || is_colon && !is_joint && !in_path {
                of_type.extend([token]);
            } else {
                pattern.extend([token]);
            }
            // The second one of `::` is alone.
            in_path = is_colon && is_joint;
        }
        Self { attributes, pattern, of_type }
    }

    /// Where the compiler says what is wrong with it.
    fn place(&self) -> Span {
        let last = self.pattern.clone().into_iter().last();
        Span::call_site().located_at(last.map_or_else(Span::call_site, |token| token.span()))
    }

    /// Its attributes, without expecting such lints.
    fn attributes(&self, is_gone: impl Fn(&str) -> bool) -> TokenStream {
        let without = |token: &TokenTree| match token {
            TokenTree::Group(group) => TokenTree::Group(without_expectation(group.clone(), &is_gone)),
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

/// What an attribute has in its brackets: `allow(…)` instead of `expect(…)` if such a lint is among the expected.
fn without_expectation(attribute: Group, is_gone: impl Fn(&str) -> bool) -> Group {
    let mut tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    let [TokenTree::Ident(word), TokenTree::Group(lints)] = &mut tokens[..] else { return attribute };
    let names = |token| matches!(&token, TokenTree::Ident(lint) if is_gone(&lint.to_string()));
    if word != "expect" || !lints.stream().into_iter().any(names) {
        return attribute;
    }
    *word = Ident::new("allow", word.span());
    refilled(&attribute, tokens.into_iter().collect())
}
