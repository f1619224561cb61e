//! Why an event is not sampled as requested: what is refused here, and what the kernel refuses.

use super::flags::{Content, Records};
use super::sampler::Sampler;
use crate::attr::Field;
use crate::locked_memory::LockedMemory;
use crate::machine::Machine;
use crate::sys::{
    FLAG_AUX_OUTPUT, FLAG_FREQ, FLAG_INHERIT_THREAD, FLAG_REMOVE_ON_EXEC, FLAG_SIGTRAP, FLAG_USE_CLOCKID,
    FLAG_WRITE_BACKWARD, PRECISE_IP_SHIFT, PerfEventAttr,
};

/// Requests of which each may be refused on its own, and the bits that make them.
const REQUESTS: [(u64, &str); 7] = [
    (0b11 << PRECISE_IP_SHIFT, "precise_ip (Attr::precise_ip)"),
    (FLAG_SIGTRAP, "SIGTRAP (Sampler::sigtrap, linux 5.13)"),
    (FLAG_REMOVE_ON_EXEC, "remove_on_exec (linux 5.13)"),
    (FLAG_INHERIT_THREAD, "inherit_thread (linux 5.13)"),
    (FLAG_USE_CLOCKID, "the clock (Sampler::clock)"),
    (FLAG_WRITE_BACKWARD, "overwriting (Sampler::overwrite, linux 4.7)"),
    (FLAG_AUX_OUTPUT, "aux_output"),
];

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
        return Some("with a period of 0 it would take no samples; set a period, or use Sampler::dummy".into());
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
    if sampler.is_overwritten && sampler.aux_pages > 0 {
        return Some("a ring that is overwritten is mapped read-only, which an AUX area does not allow".into());
    }
    None
}

/// Which part of a request the kernel refuses: the one without which `open` succeeds.
pub(super) fn culprit(raw: &PerfEventAttr, errno: i32, open: impl Fn(&PerfEventAttr) -> bool) -> Option<String> {
    let mut flags: Vec<(u64, String)> = Records::from_bits(raw.flags)
        .named()
        .map(|(records, name)| (records.bits(), format!("records of {name} (Sampler::records)")))
        .collect();
    flags.extend(REQUESTS.iter().map(|&(bits, name)| (bits, name.to_owned())));
    let flags = flags.into_iter().filter(|(bits, _)| raw.flags & bits != 0).map(|(bits, name)| {
        // A signal requires the removal on exec.
        let bits = if bits == FLAG_REMOVE_ON_EXEC { bits | FLAG_SIGTRAP } else { bits };
        (PerfEventAttr { flags: raw.flags & !bits, ..raw.clone() }, name)
    });
    let contents = Content::from_bits(raw.sample_type).named().map(|(content, name)| {
        let aux_sample_size = if content == Content::AUX { 0 } else { raw.aux_sample_size };
        let sample_type = raw.sample_type & !content.bits();
        let without = PerfEventAttr { sample_type, aux_sample_size, ..raw.clone() };
        (without, format!("samples that contain {name} (Sampler::content)"))
    });
    let (_, what) = contents.chain(flags).find(|(without, _)| open(without))?;
    Some(match errno {
        libc::EACCES | libc::EPERM => {
            format!("this level of kernel.perf_event_paranoid requires CAP_PERFMON for {what}; leave it out")
        }
        libc::EOPNOTSUPP => format!("the PMU of this event does not support {what}; leave it out"),
        _ => format!("this kernel does not accept {what} for this event; change it or leave it out"),
    })
}

/// Why the kernel refuses to open the event, if it is because it samples.
pub(super) fn opening(sampler: &Sampler, errno: i32, machine: &Machine) -> Option<String> {
    let given = |field| sampler.attr.set(field).unwrap_or(0);
    let setting = |name: &str| machine.number(format!("proc/sys/kernel/{name}")).and_then(|n| u64::try_from(n).ok());
    match errno {
        libc::EINVAL if given(Field::Flags) & FLAG_FREQ != 0 => {
            let (limit, frequency) = (setting("perf_event_max_sample_rate")?, given(Field::SamplePeriod));
            (frequency > limit).then(|| {
                format!(
                    "{frequency} samples a second are more than kernel.perf_event_max_sample_rate allows, {limit}; \
                     set a lower frequency, or a period"
                )
            })
        }
        libc::EOVERFLOW => {
            let (limit, entries) = (setting("perf_event_max_stack")?, given(Field::SampleMaxStack));
            Some(format!(
                "call chains of {entries} entries are longer than kernel.perf_event_max_stack allows, {limit}"
            ))
        }
        _ => None,
    }
}

/// Why the kernel refuses to map the ring. `need_less` is the remedy that needs less memory.
pub(super) fn mapping(pages: usize, errno: i32, need_less: &str) -> String {
    match errno {
        libc::EPERM => {
            let memory = LockedMemory::here();
            let number = |n: Option<u64>| n.map_or_else(|| "unknown".into(), |n| n.to_string());
            let ring = if pages == 1 { "a ring of one page".into() } else { format!("a ring of {pages} pages") };
            let rings = match memory.rings(pages as u64) {
                Some(1) => "1 such ring".into(),
                rings => format!("{} such rings", number(rings)),
            };
            let (kib, cpus) = (number(memory.perf_event_mlock_kb), number(memory.cpus));
            let limit = number(memory.rlimit_memlock.map(|bytes| bytes / 1024));
            format!(
                "no locked memory is left for {ring} and one more: all processes of this user \
                 together may map {rings} (kernel.perf_event_mlock_kb is {kib} KiB for each of {cpus} \
                 CPUs, RLIMIT_MEMLOCK {limit} KiB); {need_less}, or raise kernel.perf_event_mlock_kb or \
                 RLIMIT_MEMLOCK (`ulimit -l`)"
            )
        }
        libc::ENOMEM => {
            format!("the kernel has no memory left for the ring, or the process has too many mappings; {need_less}")
        }
        libc::EINVAL => "the kernel cannot map a ring of this size for this event, or is older than 4.14".into(),
        _ => "the kernel opened the event, but does not map its ring".into(),
    }
}
