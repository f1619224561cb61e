//! Unwinds a stack from a copy of its innermost bytes.
//!
//! The tables of a module are copied when the first sample in its code is unwound, so that the module may be unloaded
//! at any time.

mod address;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arm64.rs")]
mod processor;

use std::collections::BTreeSet;

use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use perfmark_rdpmc::sample::{Registers, Stack};

use self::address::plausible;
pub(in crate::recording::sampling) use self::processor::REGISTERS;
use self::processor::{Cache, Start, Unwinder as Frames, start};
use super::Modules;
use crate::platform::modules::{LoadedModule, Table, unwind_tables};

/// The most callers of a sample.
const DEEPEST: usize = 32;

/// Finds the callers of sampled code.
#[derive(Default)]
pub(crate) struct Unwinder {
    frames: Frames<Box<[u8]>>,
    cache: Cache,
    /// The first code address of each module whose tables are in `frames`.
    with_tables: BTreeSet<u64>,
}

impl Unwinder {
    /// Forgets all modules, because some were loaded or unloaded.
    pub(crate) fn forget_modules(&mut self) {
        *self = Self::default();
    }

    /// The addresses of the calls that led to the sampled instruction, the innermost first, as far as the bytes of the
    /// stack reach.
    pub(crate) fn callers(&mut self, registers: &Registers<'_>, stack: &Stack<'_>, modules: &Modules) -> Vec<u64> {
        let Some(start) = start(registers) else { return Vec::new() };
        let valid = usize::try_from(stack.valid).unwrap_or(0).min(stack.bytes.len());
        self.walk(start, &stack.bytes[..valid], modules)
    }

    fn walk(&mut self, start: Start, bytes: &[u8], modules: &Modules) -> Vec<u64> {
        let (instruction, stack_pointer, mut registers) = start;
        let mut read = |address: u64| {
            let at = address.checked_sub(stack_pointer).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(())?;
            Ok(plausible(u64::from_ne_bytes(*word)))
        };
        let mut callers = Vec::new();
        let mut frame = FrameAddress::from_instruction_pointer(instruction);
        while callers.len() < DEEPEST {
            // Where a module has no tables, framehop follows the frame pointer. Elsewhere that could be anything.
            let Some(module) = modules.with_code(frame.address_for_lookup()) else { break };
            self.add_tables(module);
            let next = self.frames.unwind_frame(frame, &mut registers, &mut self.cache, &mut read);
            let Some(caller) = next.ok().flatten().and_then(FrameAddress::from_return_address) else { break };
            if modules.with_code(caller.address_for_lookup()).is_none() {
                break;
            }
            callers.push(caller.address_for_lookup());
            frame = caller;
        }
        callers
    }

    fn add_tables(&mut self, module: &LoadedModule) {
        let (Some(start), Some(end)) =
            (module.code.iter().map(|code| code.start).min(), module.code.iter().map(|code| code.end).max())
        else {
            return;
        };
        if !self.with_tables.insert(start) {
            return;
        }
        let Some(tables) = unwind_tables(start) else { return };
        let range = |table: &Table| Some(table.address..table.address + table.bytes.len() as u64);
        let sections = ExplicitModuleSectionInfo {
            eh_frame_hdr_svma: range(&tables.header),
            eh_frame_svma: range(&tables.frames),
            eh_frame_hdr: Some(tables.header.bytes),
            eh_frame: Some(tables.frames.bytes),
            ..ExplicitModuleSectionInfo::default()
        };
        self.frames.add_module(Module::new(String::new(), start..end, module.base, sections));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::cell::Cell;
    use std::ops::Range;

    use super::processor::start_at;
    use super::*;
    use crate::recording::random::below;

    /// Debug builds panic if arithmetic overflows, in framehop and gimli, too.
    #[test]
    fn whatever_is_on_the_stack_is_unwound_without_a_panic() {
        let mut modules = Modules::default();
        modules.update(|| ());
        let code: Vec<Range<u64>> = modules.loaded().flat_map(|module| module.code.clone()).collect();
        let state = Cell::new(22);
        let random = || below(u64::MAX, &state);
        let one_of = |values: &[u64]| values[usize::try_from(random() % values.len() as u64).unwrap_or(0)];
        let in_code = || {
            let all = code.iter().map(|range| range.start + random() % (range.end - range.start));
            one_of(&all.collect::<Vec<_>>())
        };
        let mut unwinder = Unwinder::default();
        let mut deep = 0;
        let stacks = if std::env::var_os("PERFMARK_TEST_FULL").is_some() { 30_000 } else { 3_000 };
        for _ in 0..stacks {
            let stack_pointer = one_of(&[random(), 0x7ffc_0000_0000, 0, u64::MAX - 7, 1 << 63]);
            let word = || {
                let near = stack_pointer.wrapping_add(random() % 600);
                one_of(&[in_code(), in_code(), near, random(), random() % 64, u64::MAX])
            };
            let bytes: Vec<u8> = (0..64).flat_map(|_| word().to_ne_bytes()).collect();
            let mut start = [(); _].map(|()| word());
            start[..2].copy_from_slice(&[in_code(), stack_pointer]);
            let callers = unwinder.walk(start_at(start), &bytes, &modules);
            assert!(callers.len() <= DEEPEST && callers.iter().all(|&at| modules.with_code(at).is_some()));
            deep += usize::from(callers.len() > 1);
        }
        assert!(deep > stacks / 30, "{deep}");
    }
}
