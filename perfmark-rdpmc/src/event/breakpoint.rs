//! Hardware breakpoints as events: `mem:0x1000/8:w`.

use std::fmt;

use super::term::number;

/// Accesses to an address, counted by one of the processor's few debug registers (four on x86).
///
/// The count is exact for accesses in user mode. A `read(2)` into the variable is an access of the kernel. Breakpoints
/// on the program's own addresses require no permission (`kernel/events/hw_breakpoint.c`, linux 6.12).
///
/// ```
/// use perfmark_rdpmc::{Access, Breakpoint, Event};
///
/// static COUNTER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
/// let writes = Event::from(Breakpoint::on(&COUNTER, Access::Write).expect("8 bytes"));
/// assert_eq!(writes.to_string(), format!("mem:{:#x}/8:w", COUNTER.as_ptr() as usize));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Breakpoint {
    pub(super) address: u64,
    pub(super) length: Option<u8>,
    pub(super) access: Access,
}

/// The accesses to an address that are counted (`HW_BREAKPOINT_*` in `linux/hw_breakpoint.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Reads only; x86 has no such breakpoint.
    Read = 1,
    /// Writes.
    Write = 2,
    /// Reads and writes.
    ReadWrite = 3,
    /// Executions of the instruction at the address.
    Execute = 4,
}

impl Access {
    fn letters(self) -> &'static str {
        match self {
            Self::Read => "r",
            Self::Write => "w",
            Self::ReadWrite => "rw",
            Self::Execute => "x",
        }
    }

    fn parse(letters: &str) -> Result<Self, String> {
        match letters {
            "r" => Ok(Self::Read),
            "w" => Ok(Self::Write),
            "rw" | "wr" => Ok(Self::ReadWrite),
            "x" => Ok(Self::Execute),
            _ if letters.contains('x') => Err(format!(
                "linux has no breakpoint :{letters}; executions (x) cannot be combined with reads and writes"
            )),
            _ => Err(format!("{letters:?} is not one of r, w, rw, x")),
        }
    }
}

impl Breakpoint {
    /// Watches `length` bytes from `address`: 1 to 8. x86 supports 1, 2, 4 and 8, at addresses that are a multiple of
    /// the length.
    #[must_use]
    pub fn at(address: u64, length: u8, access: Access) -> Option<Self> {
        matches!(length, 1..=8).then_some(Self { address, length: Some(length), access })
    }

    /// Watches a variable of at most 8 bytes.
    #[must_use]
    pub fn on<T>(variable: &T, access: Access) -> Option<Self> {
        Self::at(std::ptr::from_ref(variable).addr() as u64, u8::try_from(size_of::<T>()).ok()?, access)
    }

    /// The number of bytes watched: the given length, or perf's default (`default_breakpoint_len` in
    /// `tools/perf/util/parse-events.c`).
    pub(crate) fn length(self) -> u8 {
        self.length.unwrap_or(if self.access == Access::Execute && cfg!(target_arch = "x86_64") { 8 } else { 4 })
    }

    /// Why this processor refuses it. The kernel only returns EINVAL (`arch_build_bp_info` in
    /// `arch/x86/kernel/hw_breakpoint.c`).
    pub(crate) fn refusal(self) -> Option<String> {
        let length = self.length();
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        if self.access == Access::Read {
            return Some("x86 has no breakpoint for reads only; use rw, which counts reads and writes".into());
        }
        if self.access == Access::Execute && length != 8 {
            return Some(
                "on x86, linux accepts breakpoints on execution (x) only with a length of 8; leave out the length"
                    .into(),
            );
        }
        if !matches!(length, 1 | 2 | 4 | 8) {
            return Some(format!("x86 watches 1, 2, 4 or 8 bytes, not {length}"));
        }
        if self.access != Access::Execute && !self.address.is_multiple_of(u64::from(length)) {
            return Some(format!("x86 watches {length} bytes only at an address that is a multiple of {length}"));
        }
        None
    }

    /// Parses what follows `mem:`, without modifiers.
    pub(super) fn parse(location: &str, access: Option<&str>) -> Result<Self, String> {
        let (address, length) = match location.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (location, None),
        };
        let address = number(address).map_err(|why| format!("the address: {why}"))?;
        let length = length.map(|length| {
            let bytes = number(length).map_err(|why| format!("the length: {why}"))?;
            u8::try_from(bytes)
                .ok()
                .filter(|bytes| matches!(bytes, 1..=8))
                .ok_or_else(|| format!("the length {length} is not 1 to 8 bytes"))
        });
        let access = access.map_or(Ok(Access::ReadWrite), Access::parse)?;
        Ok(Self { address, length: length.transpose()?, access })
    }

    /// Whether the text consists only of letters for accesses.
    pub(super) fn are_letters(text: &str) -> bool {
        !text.is_empty() && text.bytes().all(|letter| matches!(letter, b'r' | b'w' | b'x'))
    }
}

impl fmt::Display for Breakpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mem:{:#x}", self.address)?;
        if let Some(length) = self.length {
            write!(f, "/{length}")?;
        }
        write!(f, ":{}", self.access.letters())
    }
}
