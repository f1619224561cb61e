//! Counters on a real kernel: software events anywhere, hardware events where there is a PMU.

mod support;

use perfmark_rdpmc::{Attr, Counter, Delta, Event, Hardware, Reading, Region, Software, known_loop};
use support::{exact, named, open_if_supported, tests};

fn main() {
    support::run(
        vec![
            named(an_error_names_event_errno_cause_and_remedy),
            named(a_placeholder_event_is_refused),
            named(a_software_event_is_read_by_the_kernel),
            named(the_region_of_another_counter_does_no_harm),
        ],
        tests![
            a_loop_of_known_length_is_counted_exactly,
            user_reads_and_read_2_agree,
            counters_of_every_width_are_exact_over_their_overflows,
            every_thread_counts_its_own,
            the_region_of_another_counter_does_no_harm_in_hardware,
            a_loop_of_ones_own_over_the_page_reads_the_same,
            the_times_of_the_page_are_those_of_read_2,
            a_pinned_event_that_does_not_fit_says_so,
        ],
    );
}

fn open(attr: &Attr) -> Counter {
    Counter::open(attr).expect("opens")
}

fn read(counter: &Counter) -> Reading {
    counter.read_user().unwrap_or_else(|| panic!("{:?}", counter.user_reads()))
}

fn an_error_names_event_errno_cause_and_remedy() {
    let Err(error) = Counter::open(&Attr::new(Event::raw(u64::MAX))) else {
        return println!("skipped: this PMU accepts any number");
    };
    let text = error.to_string();
    assert!(text.starts_with("r0xffffffffffffffff:u: "), "{text}");
    match error.errno_name() {
        Some(name) => assert!(text.contains(&format!("perf_event_open failed with {name}: ")), "{text}"),
        None => assert!(error.is_unsupported() && text.contains("not supported"), "{text}"),
    }
}

/// `dummy` and `bpf-output`, by number.
fn a_placeholder_event_is_refused() {
    for event in ["software/config=9/", "software/config=10/", "1:9", "1:0xa"] {
        let attr = Attr::new(event.parse::<Event>().expect("well formed"));
        for attr in [attr.clone(), attr.kernel(true)] {
            let error = Counter::open(&attr).expect_err("counts nothing");
            let expected = "it is a placeholder that counts nothing";
            assert!(error.is_unsupported() || error.reason() == expected, "{error}");
        }
    }
}

fn the_region_of_another_counter_does_no_harm() {
    anothers_region(&Attr::new(Software::TaskClock));
}

fn the_region_of_another_counter_does_no_harm_in_hardware() {
    anothers_region(&Attr::new(Hardware::Instructions));
}

/// Whatever region a counter gets: no signal, no panic, and no lasting effect.
fn anothers_region(attr: &Attr) {
    let opened = || open_if_supported(attr);
    let (Some(one), Some(two)) = (opened(), opened()) else { return };
    let region = |counter: &Counter| {
        let mut region = Region::default();
        counter.begin(&mut region);
        region
    };
    assert_eq!(one.end(&Region::default()), Delta::Unmeasured, "never begun");
    let (of_one, of_two) = (region(&one), region(&two));
    let _ = known_loop(10_000);
    println!("regions of another counter: {:?} and {:?}", one.end(&of_two), two.end(&of_one));
    let elsewhere = std::thread::scope(|scope| {
        let thread = scope.spawn(|| (opened().expect("opens").end(&of_one), region(&opened().expect("opens"))));
        thread.join().expect("no panic")
    });
    println!("of another thread: {:?}; of a dropped counter: {:?}", elsewhere.0, one.end(&elsewhere.1));
    drop(two);
    println!("of a closed counter: {:?}", one.end(&of_two));
    // Its own regions are still correct, also the one that began before.
    let now = region(&one);
    let length = known_loop(10_000);
    for (region, about) in [(&of_one, 2 * length), (&now, length)] {
        let value = exact(one.end(region));
        assert!(!attr.event().is_hardware() || value >= about, "{value}");
    }
}

/// The loop is only for the machine of `ci/pmu-machine`: the number of an arm64 counter is in the instruction.
fn a_loop_of_ones_own_over_the_page_reads_the_same() {
    let counter = Counter::open(&Attr::new(Hardware::Cycles)).expect("there is a PMU");
    let page = counter.page().expect("it has a page");
    assert!(page.cap_user_rdpmc() && page.pmc_width() > 0, "{page:?}");
    #[cfg(target_arch = "aarch64")]
    {
        const CYCLE_COUNTER: u32 = 32;
        let own = || loop {
            let lock = page.lock();
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Acquire);
            let (offset, unused) = (page.offset(), 64 - u32::from(page.pmc_width()));
            assert_eq!(page.index(), CYCLE_COUNTER);
            let raw: u64;
            // SAFETY: the page of this thread's own counter names it.
            unsafe { std::arch::asm!("mrs {}, pmccntr_el0", out(reg) raw, options(nostack)) };
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Acquire);
            if lock % 2 == 0 && page.lock() == lock {
                break ((raw << unused).cast_signed() >> unused).wrapping_add(offset).cast_unsigned();
            }
        };
        let (before, value, after) = (own(), counter.read_user().expect("readable").value, own());
        assert!(before < value && value < after, "{before} {value} {after}");
    }
}

fn the_times_of_the_page_are_those_of_read_2() {
    let counter = Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    let page = counter.page().expect("it has a page");
    if !page.cap_user_time() {
        return println!("skipped: this kernel's clock is not the tick counter (cap_user_time is 0)");
    }
    assert_eq!((page.version(), page.compat_version()), (0, 0), "as of all kernels until linux 6.18");
    // The formula of the manual.
    let own = || loop {
        let lock = page.lock();
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Acquire);
        let ticks = perfmark_rdpmc::clock::ticks();
        let (known, mask) =
            if page.cap_user_time_short() { (page.time_cycles(), page.time_mask()) } else { (0, u64::MAX) };
        let ticks = known.wrapping_add(ticks.wrapping_sub(known) & mask);
        let scaled = |number: u64| {
            let scaled = (u128::from(number) * u128::from(page.time_mult())) >> page.time_shift();
            u64::try_from(scaled).expect("not for centuries")
        };
        let passed = page.time_offset().wrapping_add(scaled(ticks));
        let times = [page.time_enabled(), page.time_running()].map(|time| time.wrapping_add(passed));
        let clock = page.time_zero().wrapping_add(scaled(ticks));
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Acquire);
        if lock.is_multiple_of(2) && page.lock() == lock {
            break (times, page.cap_user_time_zero().then_some(clock));
        }
    };
    let by_kernel = || counter.read_syscall().map(|reading| [reading.enabled, reading.running]).expect("readable");
    for _ in 0..100 {
        let before = by_kernel();
        let (times, clock) = own();
        let after = by_kernel();
        // The kernel rounds down in two steps.
        let between = |n: usize| before[n] <= times[n] + 1 && times[n] <= after[n] + 1;
        assert!(between(0) && between(1), "{before:?} {times:?} {after:?}");
        let now = counter.kernel_clock().map(|clock| clock.nanoseconds(perfmark_rdpmc::clock::ticks()));
        assert!(clock.is_none_or(|clock| now.is_some_and(|now| clock <= now + 1)), "{clock:?} {now:?}");
    }
}

fn a_pinned_event_that_does_not_fit_says_so() {
    let pinned = Attr::new(Hardware::Instructions).pinned(true);
    let counters: Vec<_> = (0..64).map_while(|_| Counter::open(&pinned).ok()).collect();
    let (fitting, refused): (Vec<_>, Vec<_>) = counters.into_iter().partition(|counter| counter.read().is_ok());
    assert!(!refused.is_empty(), "no PMU has 64 counters");
    if support::is_emulated() {
        assert_eq!(fitting.len(), 6);
    }
    for counter in &refused {
        let error = counter.read().expect_err("in error state").to_string();
        let expected = "the event is in error state: it was pinned and did not fit the PMU";
        assert!(error.contains(expected) && error.ends_with("enable this one again"), "{error}");
        assert!(counter.user_reads().is_err_and(|why| why.contains(expected)));
    }
    drop(fitting);
    refused[0].disable().expect("an open event");
    assert!(refused[0].read().is_err(), "still in error state");
    // As the error says.
    refused[0].enable().expect("an open event");
    let before = refused[0].read().expect("on the PMU");
    let length = known_loop(10_000);
    assert!(exact(refused[0].read().expect("on the PMU").since(&before)) >= length);
}

fn a_software_event_is_read_by_the_kernel() {
    let Some(counter) = open_if_supported(&Attr::new(Software::TaskClock)) else { return };
    assert_eq!(counter.read_user(), None);
    assert!(counter.user_reads().is_err_and(|why| why.contains("kernel")));
    let before = counter.read().expect("readable");
    let _ = known_loop(1_000_000);
    let nanoseconds = exact(counter.read().expect("readable").since(&before));
    assert!(nanoseconds > 0);
}

/// The tolerance for a region in which the kernel updated the page: some processors count one instruction per
/// interrupt.
const DISTURBED: u64 = 100;

/// Counts a loop of known length. Returns what is counted in addition, which is the second half of the first read and
/// the first half of the second; and whether the kernel left the page unchanged.
#[inline(never)]
fn extra(counter: &Counter, iterations: u64) -> (u64, bool) {
    let lock = counter.page_lock();
    let before = read(counter);
    let length = known_loop(iterations);
    let after = read(counter);
    let undisturbed = counter.page_lock() == lock;
    (exact(after.since(&before)) - length, undisturbed)
}

/// The additional count of an undisturbed region.
fn constant(counter: &Counter) -> u64 {
    let mut regions = std::iter::repeat_with(|| extra(counter, 1));
    regions.find(|(_, undisturbed)| *undisturbed).expect("endless").0
}

fn a_loop_of_known_length_is_counted_exactly() {
    let counter = open(&Attr::new(Hardware::Instructions));
    let constant = constant(&counter);
    for iterations in 1..=1_000 {
        while {
            let (extra, undisturbed) = extra(&counter, iterations);
            let tolerance = if undisturbed { 0 } else { DISTURBED };
            assert!(extra.abs_diff(constant) <= tolerance, "{iterations} iterations: {extra}, not {constant}");
            !undisturbed
        } {}
    }
}

fn user_reads_and_read_2_agree() {
    let counter = open(&Attr::new(Hardware::Instructions));
    let by_kernel = || counter.read_syscall().expect("readable");
    let empty = by_kernel();
    let empty = exact(by_kernel().since(&empty));
    let outer = by_kernel();
    let (user, _) = extra(&counter, 1_000_000);
    let outer = exact(by_kernel().since(&outer)) - 2_000_000;
    // Between the reads by the kernel are the complete user reads and half of each read by the kernel.
    // Unoptimized code around the readings has more instructions than the bound allows.
    let is_near = cfg!(debug_assertions) || outer - user <= empty + constant(&counter) + DISTURBED;
    assert!(outer > user && is_near, "{user} {outer} {empty}");
}

fn counters_of_every_width_are_exact_over_their_overflows() {
    for wide in [true, false] {
        let counter = open(&Attr::new(Hardware::Instructions).wide(wide));
        // More than 2^31 instructions: a 32-bit counter overflows, because the kernel sets it to overflow every 2^31.
        let (extra, _) = extra(&counter, 9 << 27);
        let constant = constant(&counter);
        assert!(extra.abs_diff(constant) <= DISTURBED, "wide {wide}: {extra}, not {constant}");
    }
}

fn every_thread_counts_its_own() {
    let threads: Vec<_> = (1..=4)
        .map(|n| {
            std::thread::spawn(move || {
                let counter = open(&Attr::new(Hardware::Instructions));
                let (extra, constant) = (extra(&counter, n * 500_000).0, constant(&counter));
                assert!(extra.abs_diff(constant) <= DISTURBED, "{extra}, not {constant}");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("correct counts");
    }
}
