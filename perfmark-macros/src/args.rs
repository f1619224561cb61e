//! The attribute's arguments.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Error, LitInt, LitStr, Token};

use crate::event::{self, NamedEvent};

/// The options in error messages: those of the attribute, of a region, and of a crate's defaults.
pub(crate) const OF_ITEM: &str = "`name = \"…\"`, `every = N`, `fence`, `kernel`, `generic`, `crate = path`";
pub(crate) const OF_REGION: &str = "`every = N`, `fence`, `kernel`, `generic`, `crate = path`";
pub(crate) const OF_CRATE: &str = "`every = N`, `budget = \"…\"`, `fence`, `kernel`, `crate = path`";

/// `#[perfmark(cycles, "cpu/event=0xc2/", name = "…", every = 61, fence)]`
#[derive(Default)]
pub(crate) struct Args {
    /// Event names in the recorder's form. Empty for the bare attribute, which records the default events.
    pub(crate) events: Vec<String>,
    pub(crate) name: Option<LitStr>,
    /// N if one call in N is measured.
    pub(crate) every: Option<(u32, Span)>,
    pub(crate) fence: bool,
    /// Set if each instance of a generic function has a row of its own.
    pub(crate) generic: Option<Span>,
    /// The budget of a crate's marks.
    pub(crate) budget: Option<LitStr>,
    /// The path of the perfmark crate, if it is renamed or re-exported.
    pub(crate) krate: Option<TokenStream>,
    /// The options, for error messages.
    pub(crate) options: &'static str,
}

impl Args {
    pub(crate) fn parse(input: ParseStream<'_>, options: &'static str) -> syn::Result<Self> {
        let (mut args, mut events, mut kernel) = (Self { options, ..Self::default() }, Vec::new(), None);
        while !input.is_empty() {
            args.parse_one(input, &mut events, &mut kernel)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        args.events = event::names(events, kernel)?;
        Ok(args)
    }

    /// The path of the perfmark crate.
    pub(crate) fn krate(&self) -> TokenStream {
        self.krate.clone().unwrap_or_else(|| quote!(::perfmark))
    }

    /// The same arguments, for one function or region.
    pub(crate) fn of_one_mark(self) -> syn::Result<Self> {
        match &self.budget {
            Some(budget) => Err(Error::new(
                budget.span(),
                "`budget` applies to the marks of a crate: write it in `perfmark::defaults!`, or `every = N` here",
            )),
            None => Ok(self),
        }
    }

    /// Checks that the arguments suit a mark whose calls are futures.
    pub(crate) fn check_future(&self) -> syn::Result<()> {
        match self.every {
            Some((_, span)) => {
                Err(Error::new(span, "all calls of async functions and async blocks are measured: remove `every`"))
            }
            None => Ok(()),
        }
    }

    fn parse_one(
        &mut self,
        input: ParseStream<'_>,
        events: &mut Vec<NamedEvent>,
        kernel: &mut Option<Span>,
    ) -> syn::Result<()> {
        if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            return event::add_quoted(events, &text.value(), text.span());
        }
        let word = Ident::parse_any(input).map_err(|error| {
            let expected = "expected an event, such as `cycles`, `time` or `\"cpu/event=0xc2/\"`, or an option:";
            Error::new(error.span(), format!("{expected} {}", self.options))
        })?;
        let is_new = match &*word.to_string() {
            _ if input.peek(Token![=]) => return self.parse_option(&word, input),
            "fence" => !std::mem::replace(&mut self.fence, true),
            "generic" => self.generic.replace(word.span()).is_none(),
            "kernel" => kernel.replace(word.span()).is_none(),
            "skip" => {
                return Err(Error::new(word.span(), "`skip` must be the only argument, as in `#[perfmark(skip)]`"));
            }
            "name" | "every" | "budget" | "crate" => {
                let what =
                    if self.options.contains(&format!("`{word}")) { "requires a value" } else { "is no option here" };
                return Err(Error::new(word.span(), format!("`{word}` {what}; the options are {}", self.options)));
            }
            _ => return event::add_word(events, &word, input),
        };
        if is_new { Ok(()) } else { Err(duplicate(&word)) }
    }

    /// Parses the value of `word = value`.
    fn parse_option(&mut self, word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let equals: Token![=] = input.parse()?;
        let is_new = match &*word.to_string() {
            "name" => {
                let why = "`name` requires a string literal, as in `name = \"…\"`";
                let name: LitStr = input.parse().map_err(|error| Error::new(error.span(), why))?;
                if name.value().is_empty() {
                    return Err(Error::new(name.span(), "a mark's name cannot be empty"));
                }
                self.name.replace(name).is_none()
            }
            "every" => {
                let why = "`every = N` measures one call in N: N must be an integer literal from 1 to 4294967295";
                let number: LitInt = input.parse().map_err(|error| Error::new(error.span(), why))?;
                let every = number.base10_parse::<u32>().ok().filter(|&every| every > 0);
                let every = every.ok_or_else(|| Error::new(number.span(), why))?;
                self.every.replace((every, word.span())).is_none()
            }
            "budget" => {
                let why = "`budget` requires a percentage above 0 and at most 100, as in `budget = \"2%\"`";
                let budget: LitStr = input.parse().map_err(|error| Error::new(error.span(), why))?;
                if !is_percentage(&budget.value()) {
                    return Err(Error::new(budget.span(), why));
                }
                self.budget.replace(budget).is_none()
            }
            "crate" => self.krate.replace(path(input)?).is_none(),
            "fence" | "kernel" | "generic" => {
                return Err(Error::new(equals.span, format!("`{word}` takes no value: write `{word}` alone")));
            }
            _ => {
                let why = format!("unknown option `{word}`; the options are {}", self.options);
                return Err(Error::new(word.span(), why));
            }
        };
        if is_new { Ok(()) } else { Err(duplicate(word)) }
    }
}

/// Whether the text is a budget that perfmark accepts.
fn is_percentage(text: &str) -> bool {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    percent.is_some_and(|percent| percent > 0.0 && percent <= 100.0)
}

/// A path without generic arguments: `::a::b`.
fn path(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut path = TokenStream::new();
    if input.peek(Token![::]) {
        input.parse::<Token![::]>()?.to_tokens(&mut path);
    }
    loop {
        let name = Ident::parse_any(input).map_err(|error| {
            Error::new(
                error.span(),
                "expected the path of the perfmark crate, without quotes, as in `crate = facade::perfmark`",
            )
        })?;
        name.to_tokens(&mut path);
        if !input.peek(Token![::]) {
            return Ok(path);
        }
        input.parse::<Token![::]>()?.to_tokens(&mut path);
    }
}

fn duplicate(word: &Ident) -> Error {
    Error::new(word.span(), format!("`{word}` is specified twice"))
}
