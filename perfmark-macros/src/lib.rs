//! The attribute of the `perfmark` crate, which documents it.
//!
//! Tokens in, tokens out: the function stays as it was written, with one statement more at the head of its body; an async one's future is
//! wrapped. What becomes of that (`perfmark::private::mark!`, `polled!`) is decided by the features of `perfmark`, not here, because in one build
//! they can differ from this crate's.

mod tokens;
mod args;
mod container;
mod items;
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

/// What a crate's marks record where they do not say. Documented at `perfmark::defaults`.
#[proc_macro]
pub fn defaults(input: TokenStream) -> TokenStream {
    defaults::expand(input.into()).into()
}

/// Measures each call of a function. Documented at `perfmark::perfmark`.
#[proc_macro_attribute]
pub fn perfmark(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(&args.into(), &item.into()).into()
}
