//! The PMUs of the cores, and how many counters each has.
//!
//! No file says how many. But the kernel refuses a group that can never be on the PMU as a whole, so a group is let grow until
//! that: first by an event that no fixed counter counts, then by those that one may.

use crate::error::errno_text;
use crate::event::Hardware;
use crate::machine::{DEVICES, Machine};
use crate::sys::{
    self, FLAG_DISABLED, FLAG_ENABLE_ON_EXEC, FLAG_EXCLUDE_HV, FLAG_EXCLUDE_KERNEL, PerfEventAttr, TYPE_HARDWARE,
};

/// The leader is never enabled, so that the group is never on the PMU. Its members are not disabled themselves: the kernel leaves
/// those out of account (`collect_events`, `arch/x86/events/core.c`; `validate_event`, `drivers/perf/arm_pmu.c`; linux 6.12), and
/// arm64's the leader too, unless it waits for an exec.
const LEADER: u64 = FLAG_DISABLED | FLAG_ENABLE_ON_EXEC;

/// More than any PMU has. Some drivers (riscv64) do not judge groups.
const TOO_MANY: usize = 64;

/// A PMU of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CorePmu {
    /// Its name in sysfs.
    pub name: String,
    /// Its number among the kernel's types of events.
    pub kind: Option<u32>,
    /// The CPUs it covers, if it does not cover them all.
    pub cpus: Option<String>,
    /// x86: its file `rdpmc`, 0 where user space may not read.
    pub rdpmc: Option<i64>,
    /// Its counters, or why they could not be counted.
    pub counters: Result<Counters, String>,
}

/// A core's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Counters for any event.
    pub generic: usize,
    /// Events that have a counter of their own besides.
    pub fixed: Vec<Hardware>,
}

impl CorePmu {
    pub(super) fn of(machine: &Machine, name: String) -> Self {
        let file = |file: &str| format!("{DEVICES}/{name}/{file}");
        Self {
            kind: machine.number(file("type")).and_then(|kind| u32::try_from(kind).ok()),
            cpus: machine.text(file("cpus")),
            rdpmc: machine.rdpmc(&name),
            counters: Err("not tried".into()),
            name,
        }
    }

    /// Counts its counters.
    pub(super) fn count(&mut self, several: bool) {
        let pmu = match (several, self.kind) {
            (false, _) => 0,
            (true, Some(kind)) => kind,
            (true, None) => return,
        };
        self.counters = grow(|event, leader| {
            let attr = PerfEventAttr {
                kind: TYPE_HARDWARE,
                size: PerfEventAttr::SIZE,
                config: sys::aimed_at(pmu, event as u64),
                flags: FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV | if leader.is_none() { LEADER } else { 0 },
                ..PerfEventAttr::default()
            };
            sys::open_in_group(&attr, leader)
        });
    }
}

/// Counts by `open`, which gives a member of the group of the leader, or errno.
fn grow<Member>(open: impl Fn(Hardware, Option<&Member>) -> Result<Member, i32>) -> Result<Counters, String> {
    let mut refusal = libc::ENOENT;
    // The last is for plain PMUs, such as QEMU's for arm64, which have no fixed counter for it.
    let anywhere = [
        Hardware::BranchMisses,
        Hardware::CacheMisses,
        Hardware::CacheReferences,
        Hardware::Branches,
        Hardware::Instructions,
    ];
    let first = anywhere.into_iter().find_map(|event| match open(event, None) {
        Ok(leader) => Some((event, leader)),
        Err(errno) => {
            refusal = errno;
            None
        }
    });
    let Some((event, leader)) = first else {
        return Err(format!("perf_event_open gave {}", errno_text(refusal)));
    };
    let mut members = Vec::new();
    loop {
        match open(event, Some(&leader)) {
            Ok(member) => members.push(member),
            Err(libc::EINVAL | libc::ENOSPC) => break,
            Err(errno) => return Err(format!("perf_event_open gave {} before they were all taken", errno_text(errno))),
        }
        if members.len() > TOO_MANY {
            return Err("the kernel takes groups of any size".into());
        }
    }
    let generic = members.len() + 1;
    let mut fixed = Vec::new();
    for event in [Hardware::Cycles, Hardware::Instructions, Hardware::RefCycles] {
        if let Ok(member) = open(event, Some(&leader)) {
            members.push(member);
            fixed.push(event);
        }
    }
    Ok(Counters { generic, fixed })
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A PMU in miniature, whose members give their counter back when dropped.
    struct Model {
        generic: usize,
        fixed: &'static [Hardware],
        taken: Cell<usize>,
        own: RefCell<Vec<Hardware>>,
    }

    impl Model {
        fn new(generic: usize, fixed: &'static [Hardware]) -> Self {
            Self { generic, fixed, taken: Cell::new(0), own: RefCell::default() }
        }

        fn open(&self, event: Hardware) -> Result<Member<'_>, i32> {
            if self.fixed.contains(&event) && !self.own.borrow().contains(&event) {
                self.own.borrow_mut().push(event);
                return Ok(Member(self, false));
            }
            if self.taken.get() == self.generic {
                return Err(libc::EINVAL);
            }
            self.taken.set(self.taken.get() + 1);
            Ok(Member(self, true))
        }
    }

    struct Member<'a>(&'a Model, bool);

    impl Drop for Member<'_> {
        fn drop(&mut self) {
            if self.1 {
                self.0.taken.set(self.0.taken.get() - 1);
            }
        }
    }

    #[test]
    fn generic_and_fixed_counters_are_told_apart() {
        for (generic, fixed) in [
            (6, &[Hardware::Cycles][..]),
            (8, &[Hardware::Cycles, Hardware::Instructions, Hardware::RefCycles]),
            (1, &[]),
            (4, &[]),
        ] {
            let model = Model::new(generic, fixed);
            let counters = grow(|event, _| model.open(event)).expect("countable");
            assert_eq!(counters, Counters { generic, fixed: fixed.to_vec() });
            assert_eq!(model.taken.get(), 0, "nothing stays open");
        }
    }

    #[test]
    fn what_cannot_be_counted_is_told_and_not_guessed() {
        let none = grow::<()>(|_, _| Err(libc::ENOENT)).expect_err("no PMU");
        assert!(none.contains("ENOENT"), "{none}");
        let descriptors = Cell::new(3u32);
        let few = grow(|_, _| {
            descriptors.set(descriptors.get().checked_sub(1).ok_or(libc::EMFILE)?);
            Ok(())
        });
        assert!(few.expect_err("no descriptor left").contains("EMFILE"));
        assert!(grow(|_, _| Ok(())).is_err(), "a driver that does not judge groups");
    }
}
