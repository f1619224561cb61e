//! The macros of the `perfmark` crate, which documents them.
//!
//! The attribute adds macro calls to a function's body (`perfmark::private::mark!`, `begun!`, `polled!`) and otherwise
//! keeps the tokens as written. The future of an async function is wrapped. The features of `perfmark` decide what
//! these macros expand to. This crate does not, because its features can differ from those of `perfmark` in one build.

mod tokens;
mod spelling;
mod event;
mod args;
mod container;
mod function;
mod signature;
mod body;
mod future;
mod expand;
mod region;
mod defaults;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Measures a block. Documented at `perfmark::region`.
#[proc_macro]
pub fn region(input: TokenStream) -> TokenStream {
    region::expand(input.into()).into()
}

/// Sets what a crate's marks record if they do not specify it. Documented at `perfmark::defaults`.
#[proc_macro]
pub fn defaults(input: TokenStream) -> TokenStream {
    defaults::expand(input.into()).into()
}

/// Measures each call of a function. Documented at `perfmark::perfmark`.
#[proc_macro_attribute]
pub fn perfmark(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(&args.into(), &item.into()).into()
}
