//! On processors whose stacks are not unwound.

use perfmark_rdpmc::sample::{Registers, Stack};

use super::Modules;

/// No registers are sampled.
pub(in crate::recording::sampling) const REGISTERS: u64 = 0;

/// Finds no callers.
#[derive(Debug, Default)]
pub(crate) struct Unwinder;

impl Unwinder {
    pub(crate) fn forget_modules(&mut self) {}

    #[allow(clippy::unused_self, reason = "as on other processors")]
    pub(crate) fn callers(&mut self, _: &Registers<'_>, _: &Stack<'_>, _: &Modules) -> Vec<u64> {
        Vec::new()
    }
}
