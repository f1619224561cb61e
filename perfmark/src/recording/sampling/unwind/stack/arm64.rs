//! The registers from which a stack is unwound on arm64.

use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use perfmark_rdpmc::sample::Registers;

use super::address::plausible;

pub(super) type Unwinder<D> = UnwinderAarch64<D>;
pub(super) type Cache = CacheAarch64;

/// `PERF_REG_ARM64_X29`, `LR`, `SP` and `PC` (`arch/arm64/include/uapi/asm/perf_regs.h`).
const FP: u32 = 29;
const LR: u32 = 30;
const SP: u32 = 31;
const PC: u32 = 32;

/// The bits of the registers to sample.
pub(crate) const REGISTERS: u64 = 1 << FP | 1 << LR | 1 << SP | 1 << PC;

/// Return addresses may be signed in the bits above the 48 of an address (`Documentation/arch/arm64/memory.rst`).
const ADDRESS: PtrAuthMask = PtrAuthMask((1 << 48) - 1);

/// The executed instruction, the stack pointer, and the registers to begin with.
pub(super) type Start = (u64, u64, UnwindRegsAarch64);

pub(super) fn start(registers: &Registers<'_>) -> Option<Start> {
    Some(start_at([registers.get(PC)?, registers.get(SP)?, registers.get(LR)?, registers.get(FP)?]))
}

/// The same for any words.
pub(super) fn start_at(registers: [u64; 4]) -> Start {
    let [pc, sp, lr, fp] = registers.map(plausible);
    (pc, sp, UnwindRegsAarch64::new_with_ptr_auth_mask(ADDRESS, lr, sp, fp))
}
