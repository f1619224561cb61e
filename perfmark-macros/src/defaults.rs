//! `defaults!(events…, every = N, fence)`: what a crate's marks record where they do not say.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

use crate::args::Args;
use crate::expand::recorded;

pub(crate) fn expand(input: TokenStream) -> TokenStream {
    try_expand(input).unwrap_or_else(|error| error.to_compile_error())
}

fn try_expand(input: TokenStream) -> syn::Result<TokenStream> {
    let args: Args = syn::parse2(input)?;
    if let Some(span) = args.name.as_ref().map(syn::LitStr::span) {
        return Err(Error::new(span, "a name is for one function, and this is for all of a crate"));
    }
    if let Some(span) = args.generic {
        return Err(Error::new(span, "`generic` is for one function, and this is for all of a crate"));
    }
    let (krate, recorded) = (args.krate(), recorded(&args));
    Ok(quote!(#krate::private::defaults! { #recorded }))
}
