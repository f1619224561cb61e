//! Why the kernel refuses to open an event, if it is because of its samples or other records.

use crate::flags::{Content, ReadFormat, Records};
use crate::machine::Machine;
use crate::sys::{
    FLAG_AUX_OUTPUT, FLAG_FREQ, FLAG_INHERIT_THREAD, FLAG_REMOVE_ON_EXEC, FLAG_SIGTRAP, FLAG_USE_CLOCKID,
    FLAG_WRITE_BACKWARD, PRECISE_IP_SHIFT, PerfEventAttr,
};

/// Requests of which each may be refused on its own, and the bits that make them.
const REQUESTS: [(u64, &str); 8] = [
    (0b11 << PRECISE_IP_SHIFT, "precise_ip (Attr::precise_ip)"),
    (FLAG_FREQ, "the frequency (Sampler::frequency)"),
    (FLAG_SIGTRAP, "SIGTRAP (Sampler::sigtrap, linux 5.13)"),
    (FLAG_REMOVE_ON_EXEC, "remove_on_exec (linux 5.13)"),
    (FLAG_INHERIT_THREAD, "inherit_thread (linux 5.13)"),
    (FLAG_USE_CLOCKID, "the clock (Sampler::clock)"),
    (FLAG_WRITE_BACKWARD, "overwriting (Sampler::overwrite, linux 4.7)"),
    (FLAG_AUX_OUTPUT, "aux_output"),
];

/// The cause and the remedy. `open` says whether another request succeeds.
pub(super) fn reason(
    raw: &PerfEventAttr,
    errno: i32,
    machine: &Machine,
    open: impl FnMut(&PerfEventAttr) -> bool,
) -> Option<String> {
    exceeded_limit(raw, errno, machine).or_else(|| match errno {
        libc::EINVAL | libc::EOPNOTSUPP | libc::EACCES => culprit(raw, errno, open),
        _ => None,
    })
}

/// The setting whose limit the request exceeds.
fn exceeded_limit(raw: &PerfEventAttr, errno: i32, machine: &Machine) -> Option<String> {
    let setting = |name: &str| machine.number(format!("proc/sys/kernel/{name}")).and_then(|n| u64::try_from(n).ok());
    match errno {
        libc::EINVAL if raw.flags & FLAG_FREQ != 0 => {
            let (limit, frequency) = (setting("perf_event_max_sample_rate")?, raw.sample_period);
            (frequency > limit).then(|| {
                format!(
                    "{frequency} samples a second are more than kernel.perf_event_max_sample_rate allows, {limit}; \
                     set a lower frequency, or a period"
                )
            })
        }
        libc::EOVERFLOW => {
            let (limit, entries) = (setting("perf_event_max_stack")?, raw.sample_max_stack);
            Some(format!(
                "call chains of {entries} entries are longer than kernel.perf_event_max_stack allows, {limit}"
            ))
        }
        _ => None,
    }
}

/// The part of the request that the kernel refuses: the one without which `open` succeeds.
fn culprit(raw: &PerfEventAttr, errno: i32, mut open: impl FnMut(&PerfEventAttr) -> bool) -> Option<String> {
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
    let read_format = raw.read_format & ReadFormat::ALL.iter().fold(0, |all, one| all | one.bits());
    let formats = (read_format != raw.read_format)
        .then(|| (PerfEventAttr { read_format, ..raw.clone() }, "the read format (Sampler::read_format)".to_owned()));
    let (_, what) = contents.chain(flags).chain(formats).find(|(without, _)| open(without))?;
    Some(match errno {
        libc::EACCES => {
            format!("this level of kernel.perf_event_paranoid requires CAP_PERFMON for {what}; leave it out")
        }
        libc::EOPNOTSUPP => format!("the PMU of this event does not support {what}; leave it out"),
        _ => format!("this kernel does not accept {what} for this event; change it or leave it out"),
    })
}
