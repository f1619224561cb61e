//! Why an event is not sampled as requested: what is refused here, and what the kernel refuses of a ring.

use super::sampler::Sampler;
use crate::attr::{Attr, Field};
use crate::control;
use crate::error::Error;
use crate::locked_memory::LockedMemory;
use crate::source::Refusal;
use crate::sys::{FLAG_FREQ, FLAG_SIGTRAP};

/// The number of the last signal: `_NSIG` of `include/uapi/asm-generic/signal.h` and `arch/x86/include/asm/signal.h`.
const SIGNALS: i32 = 64;

/// Why a sampler is not opened at all.
pub(super) fn before_opening(sampler: &Sampler) -> Option<String> {
    let is_power = |pages: usize| pages.is_power_of_two();
    if !is_power(sampler.pages) || !(sampler.aux_pages == 0 || is_power(sampler.aux_pages)) {
        let pages = if is_power(sampler.pages) { sampler.aux_pages } else { sampler.pages };
        return Some(format!("the number of a ring's pages must be a power of two, not {pages}"));
    }
    if sampler.attr.set(Field::SamplePeriod) == Some(0) {
        let what = if sampler.attr.has(FLAG_FREQ) { "frequency" } else { "period" };
        return Some(format!("with a {what} of 0 it would take no samples; set a {what}, or use Sampler::dummy"));
    }
    if sampler.attr.has(FLAG_SIGTRAP) && !sampler.target.is_thread() {
        return Some("SIGTRAP is sent to the sampled thread, and neither a CPU nor a cgroup is one".into());
    }
    if sampler.attr.inherits() && sampler.target.cpu.is_none() {
        return Some(
            "it inherits, and linux does not map the ring of an event that inherits and is not bound to a CPU \
             (EINVAL); open one for each CPU (Target::on_cpu), or one for each thread"
                .into(),
        );
    }
    // 0 stands for SIGIO (`F_SETSIG` in fcntl(2)).
    if let Some(signal) = sampler.signal.filter(|signal| !(1..=SIGNALS).contains(signal)) {
        return Some(format!("{signal} is no signal; choose one from 1 to {SIGNALS}"));
    }
    if sampler.signal.is_some() && !sampler.target.is_thread() {
        return Some("signals are sent to the sampled thread, and neither a CPU nor a cgroup is one".into());
    }
    if sampler.is_overwritten() && sampler.aux_pages > 0 {
        return Some("a ring that is overwritten is mapped read-only, which an AUX area does not allow".into());
    }
    None
}

/// Why the kernel refuses to map the ring. `need_less` is the remedy that needs less memory.
pub(super) fn mapping(pages: usize, errno: i32, need_less: &str) -> String {
    match errno {
        libc::EPERM => {
            let memory = LockedMemory::here();
            let number = |n: Option<u64>| n.map_or_else(|| "unknown".into(), |n| n.to_string());
            let ring = if pages == 1 { "a ring of one page".into() } else { format!("a ring of {pages} pages") };
            let together = match memory.rings(pages as u64) {
                Some(1) => ": all processes of this user together may map 1 such ring".into(),
                Some(rings) => format!(": all processes of this user together may map {rings} such rings"),
                None => String::new(),
            };
            let (kib, cpus) = (number(memory.perf_event_mlock_kb), number(memory.cpus));
            let limit = number(memory.rlimit_memlock.map(|bytes| bytes / 1024));
            format!(
                "no locked memory is left for {ring} and one more{together} (kernel.perf_event_mlock_kb is {kib} \
                 KiB for each of {cpus} CPUs, RLIMIT_MEMLOCK {limit} KiB); {need_less}, or raise \
                 kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK (`ulimit -l`)"
            )
        }
        libc::ENOMEM => {
            format!("the kernel has no memory left for the ring, or the process has too many mappings; {need_less}")
        }
        libc::EINVAL => "the kernel cannot map a ring of this size for this event, or is older than 4.14".into(),
        _ => "the kernel opened the event, but does not map its ring".into(),
    }
}

/// Why the kernel refuses to send the records of an event to a ring, or no longer to one (`perf_event_set_output` in
/// `kernel/events/core.c`, linux 6.12).
pub(super) fn output(refusal: Refusal, attr: &Attr, has_ring: bool) -> Error {
    const CALL: &str = "ioctl(SET_OUTPUT)";
    let why = match (has_ring, attr.asks_user_reads()) {
        (true, true) => {
            "the ring is of another thread or CPU, or the event's page is mapped (then open it with \
             Attr::user_reads(false))"
        }
        (true, false) => "the ring is of another thread or CPU",
        (false, _) => "the counter's page is mapped; open it with Attr::user_reads(false)",
    };
    control::explained(refusal, CALL, attr, why)
}
