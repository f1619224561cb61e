//! The PMUs of the cores, and how many counters each has.
//!
//! No file contains that number. But the kernel refuses a group that can never be on the PMU as a unit. This module
//! therefore adds events to a group until the kernel refuses: first an event that no fixed counter counts, then events
//! that may have a fixed counter.

use crate::error::errno_text;
use crate::event::Hardware;
use crate::machine::{DEVICES, Machine};
use crate::sys::{self, FLAG_DISABLED, FLAG_ENABLE_ON_EXEC, PerfEventAttr};
use crate::target::Target;

/// The leader is never enabled, so the group is never on the PMU. Its members are not disabled themselves, because the
/// kernel ignores disabled members (`collect_events`, `arch/x86/events/core.c`; `validate_event`,
/// `drivers/perf/arm_pmu.c`; linux 6.12). arm64 also ignores a disabled leader, unless it waits for an exec.
const LEADER: u64 = FLAG_DISABLED | FLAG_ENABLE_ON_EXEC;

/// More than any PMU has. Some drivers (riscv64) do not check groups.
const TOO_MANY: usize = 64;

/// A core PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CorePmu {
    /// Its name in sysfs.
    pub name: String,
    /// The kernel's number for its type of events.
    pub kind: Option<u32>,
    /// The CPUs that it covers, if it does not cover all.
    pub cpus: Option<String>,
    /// x86: its file `rdpmc`; 0 if user space may not read.
    pub rdpmc: Option<i64>,
    /// arm64: the greatest threshold of an event (`threshold=` in its terms), if its counters have thresholds.
    pub threshold_max: Option<u64>,
    /// Its counters, or why they could not be counted.
    pub counters: Result<Counters, String>,
}

/// A core's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The number of counters that can count any event.
    pub generic: usize,
    /// The events that also have a fixed counter of their own.
    pub fixed: Vec<Hardware>,
}

impl CorePmu {
    pub(super) fn of(machine: &Machine, name: String) -> Self {
        let file = |file: &str| format!("{DEVICES}/{name}/{file}");
        Self {
            kind: machine.number(file("type")).and_then(|kind| u32::try_from(kind).ok()),
            cpus: machine.text(file("cpus")),
            rdpmc: machine.rdpmc(&name),
            // In hexadecimal; 0 if there are none (`threshold_max_show` in drivers/perf/arm_pmuv3.c, linux 6.12).
            threshold_max: machine
                .text(file("caps/threshold_max"))
                .and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok())
                .filter(|&max| max > 0),
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
        self.counters = count_counters(|event, leader| {
            let attr = PerfEventAttr::in_user_mode(event as u64, pmu, if leader.is_none() { LEADER } else { 0 });
            sys::open(&attr, &Target::this_thread(), leader)
        });
    }
}

/// Counts the counters with `open`, which opens a member of the leader's group, or returns errno.
fn count_counters<Member>(open: impl Fn(Hardware, Option<&Member>) -> Result<Member, i32>) -> Result<Counters, String> {
    let mut refusal = libc::ENOENT;
    // The last is for simple PMUs, such as QEMU's for arm64, which have no fixed counter for it.
    let candidates = [
        Hardware::BranchMisses,
        Hardware::CacheMisses,
        Hardware::CacheReferences,
        Hardware::Branches,
        Hardware::Instructions,
    ];
    let first = candidates.into_iter().find_map(|event| match open(event, None) {
        Ok(leader) => Some((event, leader)),
        Err(errno) => {
            refusal = errno;
            None
        }
    });
    let Some((event, leader)) = first else {
        return Err(format!("perf_event_open failed with {}", errno_text(refusal)));
    };
    let mut members = Vec::new();
    loop {
        match open(event, Some(&leader)) {
            Ok(member) => members.push(member),
            Err(libc::EINVAL | libc::ENOSPC) => break,
            Err(errno) => {
                return Err(format!(
                    "perf_event_open failed with {} before all counters were in use",
                    errno_text(errno)
                ));
            }
        }
        if members.len() > TOO_MANY {
            return Err("the kernel accepts groups of any size".into());
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
    use std::rc::Rc;

    use super::*;

    /// A model PMU. A member with a generic counter has a clone of `taken`, and so returns it on drop.
    struct Model {
        generic: usize,
        fixed: &'static [Hardware],
        taken: Rc<()>,
        own: RefCell<Vec<Hardware>>,
    }

    impl Model {
        fn taken(&self) -> usize {
            Rc::strong_count(&self.taken) - 1
        }

        fn open(&self, event: Hardware) -> Result<Option<Rc<()>>, i32> {
            if self.fixed.contains(&event) && !self.own.borrow().contains(&event) {
                self.own.borrow_mut().push(event);
                return Ok(None);
            }
            if self.taken() < self.generic { Ok(Some(Rc::clone(&self.taken))) } else { Err(libc::EINVAL) }
        }
    }

    #[test]
    fn generic_and_fixed_counters_are_distinguished() {
        for (generic, fixed) in [
            (6, &[Hardware::Cycles][..]),
            (8, &[Hardware::Cycles, Hardware::Instructions, Hardware::RefCycles]),
            (1, &[]),
            (4, &[]),
        ] {
            let model = Model { generic, fixed, taken: Rc::default(), own: RefCell::default() };
            let counters = count_counters(|event, _| model.open(event)).expect("countable");
            assert_eq!(counters, Counters { generic, fixed: fixed.to_vec() });
            assert_eq!(model.taken(), 0, "nothing stays open");
        }
    }

    #[test]
    fn counters_that_cannot_be_counted_are_an_error() {
        let none = count_counters::<()>(|_, _| Err(libc::ENOENT)).expect_err("no PMU");
        assert!(none.contains("ENOENT"), "{none}");
        let descriptors = Cell::new(3u32);
        let few = count_counters(|_, _| {
            descriptors.set(descriptors.get().checked_sub(1).ok_or(libc::EMFILE)?);
            Ok(())
        });
        assert!(few.expect_err("no descriptor left").contains("EMFILE"));
        assert!(count_counters(|_, _| Ok(())).is_err(), "a driver that does not check groups");
    }
}
