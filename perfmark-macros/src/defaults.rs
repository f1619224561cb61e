//! `defaults!(events…, every = N, budget = "…", fence)`: what a crate's marks record if they do not specify it.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{ParseStream, Parser as _};
use syn::{Error, LitStr};

use crate::args::{Args, OF_CRATE};
use crate::expand::recording;

pub(crate) fn expand(input: TokenStream) -> TokenStream {
    try_expand(input).unwrap_or_else(|error| error.to_compile_error())
}

fn try_expand(input: TokenStream) -> syn::Result<TokenStream> {
    let args = (|input: ParseStream<'_>| Args::parse(input, OF_CRATE)).parse2(input)?;
    if let Some(span) = args.name.as_ref().map(LitStr::span) {
        return Err(Error::new(span, "`name` applies to one function and cannot be a default of the crate: remove it"));
    }
    if let Some(span) = args.generic {
        let why = "`generic` applies to one function and cannot be a default of the crate: remove it";
        return Err(Error::new(span, why));
    }
    if let (Some(budget), Some(_)) = (&args.budget, args.every) {
        let why = "`budget` and `every` exclude each other: a budget sets of how many calls one is measured";
        return Err(Error::new(budget.span(), why));
    }
    let (krate, recording) = (args.krate(), recording(&args));
    let budget = args.budget.as_ref().map_or_else(String::new, LitStr::value);
    Ok(quote!(#krate::private::defaults! { #recording #budget }))
}
