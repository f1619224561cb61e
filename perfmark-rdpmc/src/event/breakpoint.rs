//! Hardware breakpoints that count: `mem:0x1000/8:w`.

use std::fmt;

use super::term::number;

/// Accesses of an address, counted by one of the processor's few debug registers (four on x86).
///
/// Exact for what user mode does: a `read(2)` into the variable is the kernel's access. Needs no rights for the program's own
/// addresses (`kernel/events/hw_breakpoint.c`, linux 6.12).
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

/// Which accesses of an address are counted (`HW_BREAKPOINT_*` in `linux/hw_breakpoint.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads alone; x86 has no such breakpoint.
    Read = 1,
    /// Writes.
    Write = 2,
    /// Reads and writes.
    ReadWrite = 3,
    /// Executions of the instruction there.
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
                "linux has no breakpoint :{letters}; executions (x) are watched apart from reads and writes"
            )),
            _ => Err(format!("{letters:?} is not one of r, w, rw, x")),
        }
    }
}

impl Breakpoint {
    /// Watches `length` bytes from `address`: 1 to 8, of which x86 can do 1, 2, 4 and 8 at addresses that these divide.
    #[must_use]
    pub fn at(address: u64, length: u8, access: Access) -> Option<Self> {
        matches!(length, 1..=8).then_some(Self { address, length: Some(length), access })
    }

    /// Watches a variable of at most 8 bytes.
    #[must_use]
    pub fn on<T>(variable: &T, access: Access) -> Option<Self> {
        Self::at(std::ptr::from_ref(variable).addr() as u64, u8::try_from(size_of::<T>()).ok()?, access)
    }

    /// Bytes watched: those asked for, or as many as perf watches (`default_breakpoint_len` in `tools/perf/util/parse-events.c`).
    pub(crate) fn length(self) -> u8 {
        self.length.unwrap_or(if self.access == Access::Execute && cfg!(target_arch = "x86_64") { 8 } else { 4 })
    }

    /// Why this processor refuses it. The kernel says only EINVAL (`arch_build_bp_info` in `arch/x86/kernel/hw_breakpoint.c`).
    pub(crate) fn refusal(self) -> Option<String> {
        let length = self.length();
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        if self.access == Access::Read {
            return Some("x86 has no breakpoint for reads alone; rw counts them with the writes".into());
        }
        if self.access == Access::Execute && length != 8 {
            return Some(
                "linux takes breakpoints on execution (x) with a length of 8 only on x86; leave out the length".into(),
            );
        }
        if !matches!(length, 1 | 2 | 4 | 8) {
            return Some(format!("x86 watches 1, 2, 4 or 8 bytes, not {length}"));
        }
        if self.access != Access::Execute && !self.address.is_multiple_of(u64::from(length)) {
            return Some(format!("x86 watches {length} bytes only at an address that {length} divides"));
        }
        None
    }

    /// What follows `mem:`, without modifiers.
    pub(super) fn parse(place: &str, access: Option<&str>) -> Result<Self, String> {
        let (address, length) = match place.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (place, None),
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

    /// Whether all of it are letters for accesses.
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
