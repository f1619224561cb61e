//! What the kernel refuses, and why.

use perfmark_rdpmc::sample::{AuxAction, Branches, Content, ReadFormat, Records, Ring, Sampler};
use perfmark_rdpmc::support::LockedMemory;
use perfmark_rdpmc::{Attr, Counter, Field, Group, OffCpu, Software, Target, TargetCounter, support};

use super::open;

fn refused(sampler: &Sampler) -> String {
    match sampler.open() {
        Ok(_) => panic!("{sampler:?} is allowed"),
        Err(error) => error.to_string(),
    }
}

/// The errors of both kinds of counter that sample in the same way.
fn refused_as_counters(sampler: &Sampler) -> [String; 2] {
    let attr = sampler.attr();
    let own = Counter::open(attr).map(drop);
    [own, TargetCounter::open(attr, &Target::this_thread()).map(drop)]
        .map(|opened| opened.expect_err("as of a sampler").to_string())
}

fn contains(text: &str, parts: &[&str]) {
    println!("{text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

fn faults() -> Sampler {
    Sampler::new(Attr::new(Software::PageFaults))
}

pub(super) fn what_is_refused_is_named_with_its_remedy() {
    contains(&refused(&faults().pages(3)), &["page-faults:u: ", "power of two", "not 3"]);
    contains(&refused(&faults().aux_pages(3)), &["power of two", "not 3"]);
    contains(&refused(&faults().period(0)), &["a period of 0"]);
    let inherits = Sampler::new(Attr::new(Software::PageFaults).inherit(true));
    contains(&refused(&inherits), &["inherits", "Target::on_cpu"]);
    contains(&refused(&faults().overwrite(true).aux_pages(1)), &["AUX area"]);
    for signal in [0, -1, 65] {
        contains(&refused(&faults().signal(signal)), &["page-faults:u: ", &format!("{signal} is no signal")]);
    }
    let fast = Sampler::new(Attr::new(Software::TaskClock)).frequency(100_000_000);
    contains(&refused(&fast), &["EINVAL", "100000000 samples a second", "kernel.perf_event_max_sample_rate"]);
    let deep = faults().content(Content::CALLCHAIN).max_stack(60_000);
    contains(&refused(&deep), &["EOVERFLOW", "60000 entries", "kernel.perf_event_max_stack"]);
    contains(&refused(&faults().target(Target::thread(0x3fff_ffff))), &["ESRCH", "no thread"]);
    let branches = faults().branches(Branches::ANY | Branches::USER);
    contains(&refused(&branches), &["EOPNOTSUPP", "does not support samples that contain BRANCHES", "leave that out"]);
    contains(&refused(&faults().aux_pages(1)), &["mmap failed with EOPNOTSUPP", "no AUX area"]);
    for bytes in [13, 65_536] {
        let stack = [&format!("not {bytes}"), "EINVAL", "Sampler::user_stack", "multiple of 8", "at most 65528"];
        contains(&refused(&faults().user_stack(bytes)), &stack);
    }
    contains(
        &refused(&faults().content(Content::from_bits(1 << 62))),
        &["EINVAL", "contents that it does not know (Sampler::content)"],
    );
    contains(&refused(&faults().read_format(ReadFormat::from_bits(1 << 7))), &["EINVAL", "Sampler::read_format"]);
    let unknown = [faults().user_registers(1 << 63), faults().interrupt_registers(0)];
    contains(&refused(&unknown[0]), &["these registers (Sampler::user_registers; see asm/perf_regs.h)"]);
    contains(&refused(&unknown[1]), &["EINVAL", "code (Sampler::interrupt_registers; see asm/perf_regs.h)"]);
    contains(&refused(&unknown[0].clone().interrupt_registers(0)), &["these registers"]);
    // What is refused with another errno comes after the cause.
    let several = faults().content(Content::from_bits(1 << 62)).records(Records::NAMESPACES).branches(Branches::ANY);
    for target in [Target::this_thread(), Target::cpu(0), Target::thread(1)] {
        contains(&refused(&several.clone().target(target)), &["EINVAL", "contents that it does not know"]);
    }
    contains(&refused(&faults().content(Content::WEIGHT | Content::WEIGHT_PARTS)), &["EINVAL", "one of the two"]);
    let counts = Sampler::new(Attr::new(Software::PageFaults).inherit(true)).content(Content::READ);
    contains(&refused(&counts.target(Target::this_thread().on_cpu(0))), &["EINVAL", "Content::THREAD"]);
    contains(&refused(&faults().aux_action(AuxAction::Pause)), &["an action on a trace (Sampler::aux_action"]);
    contains(&refused(&faults().sigtrap(1).target(Target::cpu(0))), &["SIGTRAP is sent to the sampled thread"]);
    let inherits = Sampler::new(Attr::new(Software::PageFaults).field(Field::Flags, 1 << 1));
    contains(&refused(&inherits), &["inherits", "Target::on_cpu"]);
    contains(&refused(&faults().frequency(0)), &["a frequency of 0"]);
    contains(&refused(&faults().period(1 << 63)), &["EINVAL", "9223372036854775808 events", "less than 2^63"]);
    let stays = faults().sigtrap(1).remove_on_exec(false);
    contains(&refused(&stays), &["EINVAL", "Sampler::sigtrap", "requires Sampler::remove_on_exec"]);
    let exec = Sampler::new(Attr::new(Software::PageFaults).enable_on_exec(true)).remove_on_exec(true);
    contains(&refused(&exec), &["EINVAL", "Attr::enable_on_exec", "Sampler::remove_on_exec", "one of the two"]);
    contains(
        &refused(&faults().records(Records::from_bits(1 << 63))),
        &["EINVAL", "flags that it does not know (Sampler::records"],
    );
}

pub(super) fn requests_that_are_refused_later_name_the_cause() {
    let mut ring = open(&Sampler::new(Attr::new(Software::TaskClock)));
    ring.add(&faults().frequency(99)).expect("allowed");
    let error = |result: Result<(), perfmark_rdpmc::Error>| result.expect_err("refused").to_string();
    for period in [0, u64::MAX] {
        let why = ["ioctl(PERIOD)", "EINVAL", &format!("a period of {period}"), "from 1 to 2^63 - 1"];
        contains(&error(ring.set_period(period)), &why);
        contains(&error(ring.restart_with_period(0, period)), &why);
        let frequency = [&format!("a frequency of {period}"), "page-faults:u", "kernel.perf_event_max_sample_rate"];
        contains(&error(ring.restart_with_period(1, period)), &frequency);
    }
    let fixed = "only breakpoints can be changed";
    contains(&error(ring.modify_attributes(&Sampler::new(Attr::new(Software::TaskClock)))), &["task-clock:u", fixed]);
    let mut dummy = open(&Sampler::dummy());
    contains(&error(dummy.set_period(1)), &["dummy event", "takes no samples"]);
    contains(&error(dummy.modify_attributes(&faults())), &["dummy event", fixed]);
    let counter = Counter::open(Sampler::new(Attr::new(Software::TaskClock)).attr()).expect("as the ring");
    contains(&error(counter.pause_output(true)), &["EINVAL", "no ring", "Counter::set_output"]);
    contains(&error(counter.set_period(0)), &["a period of 0", "from 1 to 2^63 - 1"]);
    let counts = Counter::open(&Attr::new(Software::TaskClock)).expect("as the ring");
    contains(&error(counts.set_period(1)), &["the request is for events that sample"]);
}

pub(super) fn counters_that_sample_are_refused_with_the_same_reasons() {
    for sampler in [
        Sampler::new(Attr::new(Software::TaskClock)).frequency(100_000_000),
        faults().content(Content::CALLCHAIN).max_stack(60_000),
        faults().branches(Branches::ANY | Branches::USER),
        faults().user_stack(13),
        faults().period(1 << 63),
    ] {
        assert_eq!(refused_as_counters(&sampler), [refused(&sampler), refused(&sampler)]);
    }
}

pub(super) fn a_group_that_linux_refuses_is_refused_with_the_reason() {
    let (event, clock) = (faults().content(Content::READ), Attr::new(Software::TaskClock));
    assert!(open(&event.clone().group(vec![clock.clone(); 63])).count().is_ok());
    contains(&refused(&event.clone().group(vec![clock.clone(); 64])), &["it has 65 events; at most 64"]);
    for member in [clock.clone().pinned(true), clock.clone().exclusive(true)] {
        contains(&refused(&event.clone().group([member])), &["only the leader, the first event of a group"]);
    }
    contains(&refused(&event.group([clock.inherit(true)])), &["either all events of a group inherit, or none does"]);
}

pub(super) fn what_requires_permission_is_named() {
    let namespaces = Sampler::dummy().records(Records::NAMESPACES | Records::MMAP2 | Records::COMM);
    contains(&refused(&namespaces), &["EACCES", "records of NAMESPACES", "CAP_PERFMON"]);
    let physical = faults().content(Content::PHYSICAL_ADDRESS | Content::IP);
    contains(&refused(&physical), &["EACCES", "PHYSICAL_ADDRESS", "CAP_PERFMON"]);
    let namespaces = faults().records(Records::NAMESPACES);
    contains(&refused(&namespaces), &["EACCES", "at every level of kernel.perf_event_paranoid"]);
    contains(&refused(&physical), &["EACCES", "kernel.perf_event_paranoid is 2", "CAP_PERFMON, or level 1"]);
    for sampler in [physical, namespaces] {
        assert_eq!(refused_as_counters(&sampler), [refused(&sampler), refused(&sampler)]);
    }
    let kernel = Sampler::new(Attr::new(Software::PageFaults).kernel(true));
    contains(&refused(&kernel), &["EACCES", "kernel.perf_event_paranoid is 2", "level 1"]);
}

pub(super) fn unprivileged_requests_are_allowed() {
    for &records in Records::ALL {
        // These two require permission, one of them on some kernels only.
        if ![Records::NAMESPACES, Records::TEXT_POKE].contains(&records) {
            drop(open(&Sampler::dummy().records(records)));
        }
    }
    for content in [Content::CGROUP, Content::DATA_PAGE_SIZE, Content::CODE_PAGE_SIZE, Content::WEIGHT_PARTS] {
        drop(open(&faults().content(content)));
    }
    drop(open(&faults().inherit_thread(true).target(Target::this_thread().on_cpu(0))));
    let removed = faults().remove_on_exec(true);
    drop(open(&removed));
    Group::open(&[removed.attr().clone()]).expect("opens");
    drop(open(&Sampler::new(Attr::new(Software::TaskClock).precise_ip(2)).frequency(997)));
}

pub(super) fn locked_memory() {
    const PAGES: usize = 2;
    let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
    // SAFETY: a live limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) }, 0);
    let memory: LockedMemory = support().locked_memory;
    let fit = memory.rings(PAGES as u64).expect("limited");
    let sampler = Sampler::dummy().pages(PAGES);
    let until_refused = |sampler: &Sampler, rings: &mut Vec<Ring>| loop {
        match sampler.open() {
            Ok(ring) => rings.push(ring),
            Err(error) => break error.to_string(),
        }
    };
    let mut rings = Vec::new();
    let refusal = until_refused(&sampler, &mut rings);
    let said = format!("may map {fit} such rings");
    let less = "; use fewer pages, or raise";
    contains(&refusal, &["mmap failed with EPERM", "for a ring of 2 pages", &said, less, "ulimit -l"]);
    assert_eq!(rings.len() as u64, fit);
    let refusal = OffCpu::open().expect_err("no memory is left").to_string();
    contains(
        &refusal,
        &["for a ring of 4 pages", "record the time off the CPU of fewer threads, or raise", "ulimit -l"],
    );
    rings.pop();
    rings.push(open(&sampler));
    let refusal = until_refused(&Sampler::dummy().pages(1), &mut rings);
    contains(&refusal, &["for a ring of one page", "; open fewer rings, or raise"]);
}
