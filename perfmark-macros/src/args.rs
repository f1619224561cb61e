//! What stands in the attribute's parentheses.

use perfmark_rdpmc::{Event, Modifier};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitInt, LitStr, Token};

/// The options, as an error names them.
const OPTIONS: &str = "`name = \"…\"`, `every = N`, `fence`, `kernel`, `generic`, `crate = path`";

/// `#[perfmark(cycles, "cpu/event=0xc2/", name = "…", every = 61, fence)]`
#[derive(Default)]
pub(crate) struct Args {
    /// Their names, as the recorder takes them; none for the bare attribute, which takes the default events.
    pub(crate) events: Vec<String>,
    pub(crate) name: Option<LitStr>,
    /// One call in so many is measured.
    pub(crate) every: Option<u32>,
    pub(crate) fence: bool,
    /// Whether each of a generic function's types has a row of its own.
    pub(crate) generic: Option<Span>,
    /// Where the crate is, for one that is renamed or exported again.
    pub(crate) krate: Option<TokenStream>,
}

/// An event as it is named there.
struct Named {
    /// None for `time`.
    event: Option<Event>,
    span: Span,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut args, mut events, mut kernel) = (Self::default(), Vec::new(), None);
        while !input.is_empty() {
            args.parse_one(input, &mut events, &mut kernel)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        args.events = names(events, kernel)?;
        Ok(args)
    }
}

impl Args {
    /// The path to the crate.
    pub(crate) fn krate(&self) -> TokenStream {
        self.krate.clone().unwrap_or_else(|| quote!(::perfmark))
    }

    fn parse_one(
        &mut self,
        input: ParseStream<'_>,
        events: &mut Vec<Named>,
        kernel: &mut Option<Span>,
    ) -> syn::Result<()> {
        if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            return add(events, &text.value(), text.span());
        }
        let word = Ident::parse_any(input).map_err(|error| {
            let expected = "expected an event, such as `cycles`, `time` or `\"cpu/event=0xc2/\"`, or an option:";
            Error::new(error.span(), format!("{expected} {OPTIONS}"))
        })?;
        let is_new = match &*word.to_string() {
            _ if input.peek(Token![=]) => return self.parse_option(&word, input),
            "fence" => !std::mem::replace(&mut self.fence, true),
            "generic" => self.generic.replace(word.span()).is_none(),
            "kernel" => kernel.replace(word.span()).is_none(),
            "skip" => return Err(Error::new(word.span(), "`skip` stands alone: what is left out takes no options")),
            // They are options, and want a value.
            "name" | "every" | "crate" => return Err(no_option(&word, "without a value")),
            _ => return add(events, &word.unraw().to_string(), word.span()),
        };
        if is_new { Ok(()) } else { Err(twice(&word)) }
    }

    /// What has a value.
    fn parse_option(&mut self, word: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let equals: Token![=] = input.parse()?;
        let is_new = match &*word.to_string() {
            "name" => {
                let name: LitStr = input.parse()?;
                if name.value().is_empty() {
                    return Err(Error::new(name.span(), "a mark's name cannot be empty"));
                }
                self.name.replace(name).is_none()
            }
            "every" => {
                let number: LitInt = input.parse()?;
                let every = number.base10_parse::<u32>().ok().filter(|&every| every > 0);
                let why = "one call in how many is measured: a number from 1 to 4294967295";
                self.every.replace(every.ok_or_else(|| Error::new(number.span(), why))?).is_none()
            }
            "crate" => self.krate.replace(path(input)?).is_none(),
            "fence" | "kernel" | "generic" => {
                return Err(Error::new(equals.span, format!("`{word}` has no value: it stands alone")));
            }
            _ => return Err(no_option(word, "")),
        };
        if is_new { Ok(()) } else { Err(twice(word)) }
    }
}

/// `::a::b`, without arguments.
fn path(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut path = TokenStream::new();
    if input.peek(Token![::]) {
        input.parse::<Token![::]>()?.to_tokens(&mut path);
    }
    loop {
        let name = Ident::parse_any(input).map_err(|error| {
            Error::new(
                error.span(),
                "expected the path to this crate, without quotes, as in `crate = facade::perfmark`",
            )
        })?;
        name.to_tokens(&mut path);
        if !input.peek(Token![::]) {
            return Ok(path);
        }
        input.parse::<Token![::]>()?.to_tokens(&mut path);
    }
}

/// Adds the event of that name, checked as far as its grammar goes: what a machine lacks is for the report to tell.
fn add(events: &mut Vec<Named>, text: &str, span: Span) -> syn::Result<()> {
    let event = if text == "time" {
        None
    } else {
        Some(text.parse::<Event>().map_err(|error| Error::new(span, error.reason()))?)
    };
    if events.iter().any(|known| known.event == event) {
        return Err(Error::new(span, format!("the event `{text}` is named twice")));
    }
    events.push(Named { event, span });
    Ok(())
}

/// The events' names, each with the kernel's part if that is asked for.
fn names(events: Vec<Named>, kernel: Option<Span>) -> syn::Result<Vec<String>> {
    if let Some(span) = kernel
        && events.iter().all(|named| named.event.is_none())
    {
        let why = "`kernel` counts the kernel's part of events, too: name them, as in `instructions, kernel`";
        return Err(Error::new(span, why));
    }
    let name = |Named { event, span }: Named| {
        let Some(event) = event else { return Ok("time".to_owned()) };
        if kernel.is_none() {
            return Ok(event.to_string());
        }
        let modes = [Modifier::User, Modifier::Kernel, Modifier::Hypervisor];
        if modes.iter().any(|&mode| event.modifiers().contains(mode)) {
            let why =
                "the event's own modifiers say in which modes it counts, and `kernel` does, too: leave one of them out";
            return Err(Error::new(span, why));
        }
        Ok(event.with(Modifier::User).with(Modifier::Kernel).to_string())
    };
    events.into_iter().map(name).collect()
}

fn no_option(word: &Ident, how: &str) -> Error {
    let how = if how.is_empty() { String::new() } else { format!(" {how}") };
    Error::new(word.span(), format!("there is no option `{word}`{how}; there are {OPTIONS}"))
}

fn twice(word: &Ident) -> Error {
    Error::new(word.span(), format!("`{word}` is given twice"))
}
