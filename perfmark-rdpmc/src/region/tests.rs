//! Regions over a simulated page, with a processor whose counters are plain numbers.

use super::*;
use crate::reading::Delta;
use crate::sys::{CAP_BIT0_IS_DEPRECATED, CAP_USER_RDPMC, CAP_USER_TIME};

/// Counters 0 and 1. Reading any other counter panics; on hardware it would be a fatal signal.
#[derive(Default)]
struct Model([Cell<u64>; 2]);

impl Processor for Model {
    type Counter = u32;

    fn counter(&self, n: u32) -> u32 {
        n
    }

    #[allow(unsafe_code, reason = "the trait's method is unsafe")]
    unsafe fn read(&self, n: u32) -> u64 {
        self.0[n as usize].get()
    }

    fn ticks(&self) -> u64 {
        0
    }
}

struct Setup {
    page: Box<MmapPage>,
    model: Model,
    memory: PageMemory<Model>,
}

#[allow(unsafe_code, reason = "a model's counters can be read by anyone")]
impl Setup {
    fn new() -> Self {
        let page = Box::new(MmapPage::default());
        page.lock.store(2, Relaxed);
        page.index.store(1, Relaxed);
        page.pmc_width.store(32, Relaxed);
        // As the kernel sets it: it compensates for a counter that starts below zero.
        page.offset.store(1 << 32, Relaxed);
        page.capabilities.store(CAP_BIT0_IS_DEPRECATED | CAP_USER_RDPMC | CAP_USER_TIME, Relaxed);
        let memory = PageMemory::new(&Model::default(), Some(&page));
        Self { page, model: Model::default(), memory }
    }

    fn full_reading(&self) -> UserRead {
        // SAFETY: as above.
        unsafe { crate::read::read(&self.page, &self.model) }.expect("readable")
    }

    /// As `Counter::begin`, without a kernel. Returns whether it used the fast path.
    fn begin(&self, region: &mut Region) -> bool {
        // SAFETY: as above.
        let begin = |region: &mut Region| unsafe { self.memory.begin(&self.model, region) };
        if begin(region) {
            return true;
        }
        let read = self.full_reading();
        if !(self.memory.remember(&self.model, &read) && begin(region)) {
            *region = Region::from_reading(read.into());
        }
        false
    }

    fn end(&self, region: &Region) -> Delta {
        // SAFETY: as above.
        match unsafe { self.memory.end(&self.model, region) } {
            Some(value) => Delta::Exact(value),
            None => match self.memory.beginning(region) {
                Some(beginning) => {
                    let end = Reading { resets: self.memory.resets(), ..self.full_reading().into() };
                    end.since(&beginning)
                }
                None => Delta::Unmeasured,
            },
        }
    }

    fn count(&self, counter: usize, events: u64) {
        self.model.0[counter].set(self.model.0[counter].get() + events);
    }

    /// The kernel updates the page: it adds the counter's value to the offset, and the counter restarts at `start`.
    fn update(&self, from: usize, to: usize, start: u64) {
        let counted = sign_extend(self.model.0[from].get(), 32).cast_signed();
        let offset = self.page.offset.load(Relaxed) + counted - sign_extend(start, 32).cast_signed();
        self.page.offset.store(offset, Relaxed);
        self.page.index.store(u32::try_from(to).expect("small") + 1, Relaxed);
        self.page.lock.fetch_add(6, Relaxed);
        self.model.0[to].set(start);
    }

    fn off_for(&self, enabled: u64, running: u64) {
        self.page.time_enabled.fetch_add(enabled, Relaxed);
        self.page.time_running.fetch_add(running, Relaxed);
        self.page.lock.fetch_add(6, Relaxed);
    }
}

#[test]
fn an_undisturbed_region_is_the_plain_difference() {
    let setup = Setup::new();
    let mut region = Region::default();
    assert!(!setup.begin(&mut region), "nothing remembered yet");
    setup.count(0, 7);
    assert_eq!(setup.end(&region), Delta::Exact(7));
    assert!(setup.begin(&mut region), "the same counter as before");
    setup.count(0, 1 << 20);
    assert_eq!(setup.end(&region), Delta::Exact(1 << 20));
}

#[test]
fn a_region_is_exact_over_a_move_to_another_counter_and_an_overflow() {
    let setup = Setup::new();
    let mut region = Region::default();
    setup.begin(&mut region);
    setup.count(0, 100);
    setup.update(0, 1, 0xffff_ff00);
    setup.count(1, 0x50);
    // The counter on which it began now counts another event.
    setup.count(0, 12_345);
    assert_eq!(setup.end(&region), Delta::Exact(100 + 0x50));
    // Nested regions have new lock values; the state of the outer region's lock value is still remembered.
    let mut inner = Region::default();
    for _ in 0..REMEMBERED - 2 {
        setup.begin(&mut inner);
        setup.count(1, 1);
        setup.update(1, 1, 5);
        assert_eq!(setup.end(&inner), Delta::Exact(1));
    }
    assert_eq!(setup.end(&region), Delta::Exact(100 + 0x50 + REMEMBERED as u64 - 2));
}

#[test]
fn a_region_whose_page_state_is_forgotten_is_unmeasured() {
    let setup = Setup::new();
    let (mut outer, mut inner) = (Region::default(), Region::default());
    setup.begin(&mut outer);
    for _ in 0..REMEMBERED {
        setup.update(0, 0, 5);
        setup.begin(&mut inner);
    }
    assert_eq!(setup.end(&outer), Delta::Unmeasured);
    assert_eq!(setup.end(&inner), Delta::Exact(0));
}

#[test]
fn a_wrap_that_the_kernel_has_not_handled_yet_is_exact() {
    let setup = Setup::new();
    let mut region = Region::default();
    setup.model.0[0].set(0xffff_fffe);
    setup.begin(&mut region);
    setup.model.0[0].set(3);
    assert_eq!(setup.end(&region), Delta::Exact(5));
}

#[test]
fn once_off_the_pmu_regions_are_scaled_by_their_own_times() {
    let setup = Setup::new();
    let mut region = Region::default();
    setup.begin(&mut region);
    setup.off_for(1_000, 400);
    setup.count(0, 10);
    setup.begin(&mut region);
    setup.off_for(200, 100);
    setup.count(0, 10);
    assert_eq!(setup.end(&region), Delta::Scaled { estimate: 20, counted: 10 });
    // On the PMU the whole time: exact, although the event was off the PMU before.
    assert!(!setup.begin(&mut region));
    setup.off_for(300, 300);
    setup.count(0, 30);
    assert_eq!(setup.end(&region), Delta::Exact(30));
}

#[test]
fn a_full_reading_with_stale_times_scales_nothing() {
    let setup = Setup::new();
    let stale = Reading { has_stale_times: true, ..setup.full_reading().into() };
    let (current, stale) = (Region::from_reading(setup.full_reading().into()), Region::from_reading(stale));
    setup.count(0, 10);
    assert_eq!((setup.end(&current), setup.end(&stale)), (Delta::Exact(10), Delta::Exact(10)));
    setup.off_for(200, 100);
    assert_eq!(
        (setup.end(&current), setup.end(&stale)),
        (Delta::Scaled { estimate: 20, counted: 10 }, Delta::Unmeasured)
    );
}

#[test]
fn a_region_that_leaves_events_out_is_exact_or_unmeasured() {
    let setup = Setup::new();
    let mut region = Region::default();
    setup.off_for(1_000, 400);
    for (enabled, running, delta) in [(200, 200, Delta::Exact(6)), (200, 100, Delta::Unmeasured)] {
        setup.begin(&mut region);
        region.leave_out(4);
        setup.count(0, 10);
        setup.off_for(enabled, running);
        assert_eq!(setup.end(&region), delta);
    }
    region = Region::default();
    region.leave_out(4);
    assert_eq!(setup.end(&region), Delta::Unmeasured);
}

#[test]
fn a_reset_inside_is_unmeasured() {
    let setup = Setup::new();
    let mut region = Region::default();
    setup.count(0, 50);
    setup.begin(&mut region);
    setup.page.offset.fetch_sub(50, Relaxed);
    setup.page.lock.fetch_add(2, Relaxed);
    assert_eq!(setup.end(&region), Delta::Unmeasured);
}

#[test]
fn a_reset_makes_all_open_regions_unmeasured() {
    let setup = Setup::new();
    let mut fast = Region::default();
    setup.begin(&mut fast);
    let full_reading = Region::from_reading(setup.full_reading().into());
    setup.memory.forget();
    setup.update(0, 0, 5);
    setup.count(0, 1_000);
    assert_eq!((setup.end(&fast), setup.end(&full_reading)), (Delta::Unmeasured, Delta::Unmeasured));
    setup.begin(&mut fast);
    setup.count(0, 1);
    assert_eq!(setup.end(&fast), Delta::Exact(1));
}

#[test]
fn without_a_page_no_region_uses_the_fast_path() {
    let setup = Setup::new();
    let mut region = Region::default();
    setup.begin(&mut region);
    setup.memory.without_page();
    // SAFETY: as above.
    #[allow(unsafe_code, reason = "a model's counters can be read by anyone")]
    let fast =
        unsafe { (setup.memory.begin(&setup.model, &mut region.clone()), setup.memory.end(&setup.model, &region)) };
    assert_eq!(fast, (false, None));
}
