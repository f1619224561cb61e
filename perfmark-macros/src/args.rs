//! What stands in the attribute's parentheses.

use proc_macro2::Ident;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitStr, Token};

/// `#[perfmark(cycles, instructions, name = "…")]`
#[derive(Default)]
pub(crate) struct Args {
    /// None for the bare attribute, which takes the default events.
    pub(crate) events: Vec<Ident>,
    pub(crate) name: Option<LitStr>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut args = Self::default();
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
            Error::new(error.span(), "expected an event such as `cycles`, `instructions` or `time`, or `name = \"…\"`")
        })?;
        if !input.peek(Token![=]) {
            if self.events.contains(&ident) {
                return Err(Error::new(ident.span(), format!("the event `{ident}` is named twice")));
            }
            self.events.push(ident);
            return Ok(());
        }
        if ident != "name" {
            return Err(Error::new(
                ident.span(),
                format!("there is no option `{ident}`; the only one is `name = \"…\"`"),
            ));
        }
        input.parse::<Token![=]>()?;
        let name: LitStr = input.parse()?;
        if name.value().is_empty() {
            return Err(Error::new(name.span(), "a mark's name cannot be empty"));
        }
        if self.name.replace(name).is_some() {
            return Err(Error::new(ident.span(), "`name` is given twice"));
        }
        Ok(())
    }
}
