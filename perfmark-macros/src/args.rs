//! The attribute's arguments.

use perfmark_rdpmc::{Event, Modifier};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitInt, LitStr, Token};

/// The list of options in error messages.
const OPTIONS: &str = "`name = \"…\"`, `every = N`, `fence`, `kernel`, `generic`, `crate = path`";

/// `#[perfmark(cycles, "cpu/event=0xc2/", name = "…", every = 61, fence)]`
#[derive(Default)]
pub(crate) struct Args {
    /// Event names in the recorder's form. Empty for the bare attribute, which records the default events.
    pub(crate) events: Vec<String>,
    pub(crate) name: Option<LitStr>,
    /// N if one call in N is measured.
    pub(crate) every: Option<u32>,
    pub(crate) fence: bool,
    /// Set if each instance of a generic function has a row of its own.
    pub(crate) generic: Option<Span>,
    /// The path of the perfmark crate, if it is renamed or re-exported.
    pub(crate) krate: Option<TokenStream>,
}

/// An event in the arguments.
struct NamedEvent {
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
        args.events = event_names(events, kernel)?;
        Ok(args)
    }
}

impl Args {
    /// The path of the perfmark crate.
    pub(crate) fn krate(&self) -> TokenStream {
        self.krate.clone().unwrap_or_else(|| quote!(::perfmark))
    }

    fn parse_one(
        &mut self,
        input: ParseStream<'_>,
        events: &mut Vec<NamedEvent>,
        kernel: &mut Option<Span>,
    ) -> syn::Result<()> {
        if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            return add_event(events, &text.value(), text.span());
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
            "skip" => {
                return Err(Error::new(word.span(), "`skip` must be the only argument, as in `#[perfmark(skip)]`"));
            }
            "name" | "every" | "crate" => {
                return Err(Error::new(word.span(), format!("`{word}` requires a value; the options are {OPTIONS}")));
            }
            _ => return add_event(events, &word.unraw().to_string(), word.span()),
        };
        if is_new { Ok(()) } else { Err(duplicate(&word)) }
    }

    /// Parses the value of `word = value`.
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
                let why = "`every = N` measures one call in N: N must be an integer from 1 to 4294967295";
                self.every.replace(every.ok_or_else(|| Error::new(number.span(), why))?).is_none()
            }
            "crate" => self.krate.replace(path(input)?).is_none(),
            "fence" | "kernel" | "generic" => {
                return Err(Error::new(equals.span, format!("`{word}` takes no value: write `{word}` alone")));
            }
            _ => {
                return Err(Error::new(word.span(), format!("unknown option `{word}`; the options are {OPTIONS}")));
            }
        };
        if is_new { Ok(()) } else { Err(duplicate(word)) }
    }
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

/// Adds the event after a check of its syntax. The report at run time says which events a machine lacks.
fn add_event(events: &mut Vec<NamedEvent>, text: &str, span: Span) -> syn::Result<()> {
    let event = if text == "time" {
        None
    } else {
        Some(text.parse::<Event>().map_err(|error| Error::new(span, error.reason()))?)
    };
    if events.iter().any(|known| known.event == event) {
        return Err(Error::new(span, format!("the event `{text}` is specified twice")));
    }
    events.push(NamedEvent { event, span });
    Ok(())
}

/// The events' names. With `kernel`, each also counts in the kernel.
fn event_names(events: Vec<NamedEvent>, kernel: Option<Span>) -> syn::Result<Vec<String>> {
    if let Some(span) = kernel
        && events.iter().all(|named| named.event.is_none())
    {
        let why = "`kernel` counts the listed events in the kernel, too: list an event other than `time`, \
                   as in `instructions, kernel`";
        return Err(Error::new(span, why));
    }
    let name = |NamedEvent { event, span }: NamedEvent| {
        let Some(event) = event else { return Ok("time".to_owned()) };
        if kernel.is_none() {
            return Ok(event.to_string());
        }
        let modes = [Modifier::User, Modifier::Kernel, Modifier::Hypervisor];
        if modes.iter().any(|&mode| event.modifiers().contains(mode)) {
            let why = "both this event's modifiers and `kernel` specify the modes in which it counts: \
                       remove one of them";
            return Err(Error::new(span, why));
        }
        Ok(event.with(Modifier::User).with(Modifier::Kernel).to_string())
    };
    events.into_iter().map(name).collect()
}

fn duplicate(word: &Ident) -> Error {
    Error::new(word.span(), format!("`{word}` is specified twice"))
}
