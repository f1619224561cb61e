//! What stands in the attribute's parentheses.

use proc_macro2::Ident;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitInt, LitStr, Token};

/// The options, as an error names them.
const OPTIONS: &str = "`name = \"…\"`, `every = N`, `fence`";

/// `#[perfmark(cycles, instructions, name = "…", every = 64, fence)]`
pub(crate) struct Args {
    /// None for the bare attribute, which takes the default events.
    pub(crate) events: Vec<Ident>,
    pub(crate) name: Option<LitStr>,
    /// One call in so many is measured.
    pub(crate) every: Option<u32>,
    pub(crate) fence: bool,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut args = Self { events: Vec::new(), name: None, every: None, fence: false };
        while !input.is_empty() {
            args.parse_one(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(args)
    }
}

impl Args {
    fn parse_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let ident: Ident = input.parse().map_err(|error| {
            let expected = "expected an event such as `cycles`, `instructions` or `time`, or an option: ";
            Error::new(error.span(), format!("{expected}{OPTIONS}"))
        })?;
        if input.peek(Token![=]) {
            return self.parse_option(&ident, input);
        }
        let is_new = if ident == "fence" {
            !std::mem::replace(&mut self.fence, true)
        } else {
            let is_new = !self.events.contains(&ident);
            self.events.push(ident.clone());
            is_new
        };
        if is_new { Ok(()) } else { Err(Error::new(ident.span(), format!("`{ident}` is named twice"))) }
    }

    /// What has a value.
    fn parse_option(&mut self, ident: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let is_new = if ident == "name" {
            input.parse::<Token![=]>()?;
            let name: LitStr = input.parse()?;
            if name.value().is_empty() {
                return Err(Error::new(name.span(), "a mark's name cannot be empty"));
            }
            self.name.replace(name).is_none()
        } else if ident == "every" {
            input.parse::<Token![=]>()?;
            let number: LitInt = input.parse()?;
            let every = number.base10_parse::<u32>().ok().filter(|&every| every > 0);
            let every = every.ok_or_else(|| {
                Error::new(number.span(), "one call in how many is measured: a number from 1 to 4294967295")
            })?;
            self.every.replace(every).is_none()
        } else {
            return Err(Error::new(ident.span(), format!("there is no option `{ident}`; there are {OPTIONS}")));
        };
        if is_new { Ok(()) } else { Err(Error::new(ident.span(), format!("`{ident}` is given twice"))) }
    }
}
