//! The registers from which a stack is unwound on x86-64.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use perfmark_rdpmc::sample::Registers;

use super::address::plausible;

pub(super) type Unwinder<D> = UnwinderX86_64<D>;
pub(super) type Cache = CacheX86_64;

/// `PERF_REG_X86_BP`, `SP` and `IP` (`arch/x86/include/uapi/asm/perf_regs.h`).
const BP: u32 = 6;
const SP: u32 = 7;
const IP: u32 = 8;

/// The bits of the registers to sample.
pub(crate) const REGISTERS: u64 = 1 << BP | 1 << SP | 1 << IP;

/// The executed instruction, the stack pointer, and the registers to begin with.
pub(super) type Start = (u64, u64, UnwindRegsX86_64);

pub(super) fn start(registers: &Registers<'_>) -> Option<Start> {
    Some(start_at([registers.get(IP)?, registers.get(SP)?, registers.get(BP)?]))
}

/// The same for any words.
pub(super) fn start_at(registers: [u64; 3]) -> Start {
    let [ip, sp, bp] = registers.map(plausible);
    (ip, sp, UnwindRegsX86_64::new(ip, sp, bp))
}
