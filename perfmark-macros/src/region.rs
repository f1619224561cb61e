//! `region!("name", events…, { … })`, also without a block or with an async block.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::quote;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, LitStr, Token};

use crate::args::{Args, OF_REGION};
use crate::body::split_inner_attributes;
use crate::expand::mark;
use crate::future::async_block;
use crate::tokens::{braces, is_punct};

/// The measured code.
enum Content {
    Block(Group),
    /// An async block with its keywords.
    Future(TokenStream),
    /// From here to the end of the scope.
    Guard,
}

impl Content {
    /// Removes it from the end of the macro's tokens.
    fn take(tokens: &mut Vec<TokenTree>) -> Self {
        if let Some(at) = async_block(tokens) {
            return Self::Future(tokens.split_off(at).into_iter().collect());
        }
        match tokens.last().and_then(braces) {
            Some(block) => {
                tokens.pop();
                Self::Block(block)
            }
            None => Self::Guard,
        }
    }

    /// The code beside an error in the other arguments. Keeping it avoids further errors, and editors can still
    /// complete.
    fn with(&self, error: &TokenStream) -> TokenStream {
        match self {
            Self::Block(block) => {
                let (inner_attributes, statements) = split_inner_attributes(block.stream());
                quote!({ #inner_attributes #error #(#statements)* })
            }
            Self::Future(future) => quote!({ #error #future }),
            Self::Guard => error.clone(),
        }
    }
}

pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = input.into_iter().collect();
    let content = Content::take(&mut tokens);
    let region = try_expand(tokens.into_iter().collect(), &content);
    region.unwrap_or_else(|error| content.with(&error.to_compile_error()))
}

fn try_expand(args: TokenStream, content: &Content) -> syn::Result<TokenStream> {
    let (name, args) = parse_name_and_args.parse2(args)?;
    if let Some(again) = &args.name {
        return Err(Error::new(again.span(), "a region's name is its first argument: remove `name = …`"));
    }
    let span = name.span();
    let args = Args { name: Some(name), ..args };
    let krate = args.krate();
    let mark = mark(&args, &Ident::new("region", span));
    let block = match content {
        Content::Guard => return Ok(quote!(#krate::private::guard! { #mark })),
        Content::Future(future) => {
            args.check_future()?;
            return Ok(quote!(#krate::private::polled! { { #mark } #future }));
        }
        Content::Block(block) => block,
    };
    if let Some(span) = first_await(block.stream()) {
        let why = "a region must start and end on one thread, so it cannot contain `.await`: \
                   `region!(\"name\", async { … })` measures polls";
        return Err(Error::new(span, why));
    }
    let (inner_attributes, statements) = split_inner_attributes(block.stream());
    // Without the block's span: if recording is off, the braces are needless, and a lint would blame the user for them.
    Ok(quote!({ #inner_attributes #krate::private::mark! { #mark } #(#statements)* }))
}

/// The name, followed by the attribute's arguments.
fn parse_name_and_args(input: ParseStream<'_>) -> syn::Result<(LitStr, Args)> {
    let name: LitStr = input.parse().map_err(|error| {
        let why = "a region's first argument is its name, which must be a string literal, \
                   as in `region!(\"name\", cycles, { … })`";
        Error::new(error.span(), why)
    })?;
    if name.value().is_empty() {
        return Err(Error::new(name.span(), "a region's name cannot be empty"));
    }
    if !input.is_empty() {
        input.parse::<Token![,]>()?;
    }
    Ok((name, Args::parse(input, OF_REGION)?.of_one_mark()?))
}

/// The first `.await` in the block, except those in nested async blocks and closures.
fn first_await(tokens: TokenStream) -> Option<proc_macro2::Span> {
    let (mut after_dot, mut after_minus, mut in_async, mut bars) = (false, false, false, 0);
    for token in tokens {
        match &token {
            TokenTree::Ident(word) if after_dot && !in_async && word == "await" => return Some(word.span()),
            TokenTree::Ident(word) if word == "async" => (in_async, bars) = (true, 0),
            TokenTree::Group(group) => {
                if !in_async && let Some(span) = first_await(group.stream()) {
                    return Some(span);
                }
                // The async part ends with the braces of `async move |…| { … }` or `async { … }`.
                in_async &= braces(&token).is_none();
            }
            TokenTree::Punct(punct) => match punct.as_char() {
                '|' => bars += 1,
                ';' => in_async = false,
                // Other commas are between the arguments of `async |…, …| …`, or in its type, which braces follow.
                ',' if bars >= 2 => in_async = false,
                '>' if after_minus => bars = 0,
                _ => {}
            },
            _ => {}
        }
        (after_dot, after_minus) = (is_punct(Some(&token), '.'), is_punct(Some(&token), '-'));
    }
    None
}
