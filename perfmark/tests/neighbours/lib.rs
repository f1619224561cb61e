//! Every form of a mark, under the strictest lints. Built for editions 2018, 2021 and 2024.

#![forbid(unsafe_code)]
#![deny(
    warnings,
    clippy::all,
    clippy::pedantic,
    future_incompatible,
    keyword_idents,
    let_underscore,
    missing_docs,
    nonstandard_style,
    rust_2018_compatibility,
    rust_2018_idioms,
    rust_2021_compatibility,
    boxed_slice_into_iter,
    edition_2024_expr_fragment_specifier,
    if_let_rescope,
    impl_trait_overcaptures,
    keyword_idents_2024,
    missing_unsafe_on_extern,
    never_type_fallback_flowing_into_unsafe,
    rust_2024_guarded_string_incompatible_syntax,
    rust_2024_incompatible_pat,
    rust_2024_prelude_collisions,
    unsafe_attr_outside_unsafe,
    unused,
    missing_copy_implementations,
    missing_debug_implementations,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unreachable_pub,
    unused_crate_dependencies,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]
// Without rust_2024_compatibility. Its tail_expr_drop_order rightly warns of a marked function with temporaries in its
// tail: before edition 2024 they are dropped after the mark's guard, and from then on before it.
// Lints that are forbidden here cannot be allowed again.
#![forbid(clippy::allow_attributes, clippy::allow_attributes_without_reason, clippy::items_after_statements)]

use std::fmt::{self, Display};

use perfmark::{perfmark, region};

pub mod shadows;

/// A bare mark, on a body that begins with an item.
#[perfmark]
#[must_use]
pub fn defaults(n: u32) -> u32 {
    use std::convert::identity;
    const fn inner(n: u32) -> u32 {
        n.count_ones()
    }
    identity(inner(n))
}

/// All options.
///
/// # Errors
///
/// If the text is not a number.
#[perfmark(time, "cpu/event=0xc2/", cycles, kernel, every = 61, fence, name = "all of them", crate = perfmark)]
pub fn options(text: &str) -> Result<u32, std::num::ParseIntError> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Ok(0);
    }
    Ok(trimmed.parse::<u32>()? + 1)
}

/// Regions: of a block, of a block that is left early, and until a guard is dropped.
#[must_use]
pub fn regions(list: &[u32]) -> Option<u32> {
    let _whole = region!("whole", time);
    let sum: u32 = region!("sum", time, cycles, every = 3, { list.iter().sum() });
    let first = region!("first", { *list.first()? });
    let text = region!("text", time);
    let value = (sum + first).to_string();
    drop(text);
    value.parse().ok()
}

/// Generic, with `impl Trait`, closures and a loop.
#[perfmark(time)]
pub fn generic<'a, T: Display + 'a, const N: usize>(
    items: &'a [T; N],
    end: &'a str,
) -> impl Iterator<Item = String> + 'a {
    items.iter().map(move |item| format!("{item}{end}"))
}

/// Holds text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder<T>(Vec<T>);

#[perfmark(time)]
impl<T: Clone + Display> Holder<T> {
    /// Cannot be marked.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an item.
    pub fn push(&mut self, item: &T) -> &mut Self {
        self.0.push(item.clone());
        self
    }

    /// Left out of the mark.
    #[perfmark(skip)]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Has its own settings.
    #[must_use]
    #[perfmark(cycles, name = "the last word")]
    pub fn last(self) -> Option<T> {
        self.0.into_iter().next_back()
    }
}

#[perfmark]
impl<T: Display> Display for Holder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|item| item.fmt(f))
    }
}

/// Has methods.
#[perfmark(time)]
pub trait Shape {
    /// Without a body.
    fn side(&self) -> u32;

    /// With one.
    fn around(&self) -> u32 {
        4 * self.side()
    }
}

#[perfmark(time, every = 2)]
pub mod inner {
    //! A marked module.

    /// A free function.
    #[must_use]
    pub fn free(n: u32) -> u32 {
        deeper::function(n)
    }

    mod deeper {
        pub(super) fn function(n: u32) -> u32 {
            n.rotate_left(1)
        }
    }
}

macro_rules! made {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($argument:ident: $type:ty) $body:block) => {
        $(#[$attribute])*
        #[perfmark(time)]
        $visibility fn $name($argument: $type) -> $type $body
    };
}

made! {
    /// Made by a macro.
    #[must_use]
    pub fn by_macro(n: u64) {
        n.swap_bytes()
    }
}

/// A trait whose results lints find too complex here, but not where it is implemented.
#[expect(
    clippy::type_complexity,
    clippy::borrowed_box,
    reason = "the lints apply here, and not where it is implemented"
)]
pub trait Complex {
    /// A table of functions.
    ///
    /// # Errors
    ///
    /// None.
    fn table(
        &self,
    ) -> Result<Vec<(u8, Option<Box<dyn Fn(u8, u8) -> Option<u8>>>)>, Box<dyn std::error::Error + Send + Sync>>;
    /// What it holds.
    fn held(&self) -> &Box<u8>;
}

/// Holds something.
#[derive(Debug)]
pub struct Holds(Box<u8>);

impl Complex for Holds {
    #[perfmark::perfmark(time)]
    fn table(
        &self,
    ) -> Result<Vec<(u8, Option<Box<dyn Fn(u8, u8) -> Option<u8>>>)>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Vec::new())
    }

    #[perfmark::perfmark(time)]
    fn held(&self) -> &Box<u8> {
        &self.0
    }
}

/// Has a method that a lint does not want in a public trait.
pub trait Later {
    /// Expects the lint.
    #[perfmark(time)]
    #[expect(async_fn_in_trait, reason = "a test")]
    async fn later(&self) -> u32 {
        std::future::ready(1).await
    }
}
