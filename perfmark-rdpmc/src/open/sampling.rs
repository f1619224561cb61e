//! Why the kernel refuses to open an event, if it is because of its samples or other records.

use crate::flags::{Content, ReadFormat, Records};
use crate::machine::Machine;
use crate::sys::{
    FLAG_AUX_OUTPUT, FLAG_ENABLE_ON_EXEC, FLAG_FREQ, FLAG_INHERIT_THREAD, FLAG_REMOVE_ON_EXEC, FLAG_SIGTRAP,
    FLAG_USE_CLOCKID, FLAG_WRITE_BACKWARD, PRECISE_IP_SHIFT, PerfEventAttr,
};

/// Requests of which each may be refused on its own, and the bits that make them.
const REQUESTS: [(u64, &str); 8] = [
    (0b11 << PRECISE_IP_SHIFT, "precise_ip (Attr::precise_ip)"),
    (FLAG_FREQ, "the frequency (Sampler::frequency)"),
    (FLAG_SIGTRAP, "SIGTRAP (Sampler::sigtrap, linux 5.13)"),
    (FLAG_REMOVE_ON_EXEC, "the removal on exec (Sampler::remove_on_exec, linux 5.13)"),
    (FLAG_INHERIT_THREAD, "inheritance by threads only (Sampler::inherit_thread, linux 5.13)"),
    (FLAG_USE_CLOCKID, "the clock (Sampler::clock)"),
    (FLAG_WRITE_BACKWARD, "overwriting (Sampler::overwrite, linux 4.7)"),
    (FLAG_AUX_OUTPUT, "output to the leader's AUX area (Sampler::aux_output)"),
];

/// All bits of `struct perf_event_attr` that linux 6.18 knows.
const KNOWN_FLAGS: u64 = (FLAG_SIGTRAP << 1) - 1;

/// The cause and the remedy. `open` says whether another request succeeds.
pub(super) fn reason(
    raw: &PerfEventAttr,
    errno: i32,
    machine: &Machine,
    open: impl FnMut(&PerfEventAttr) -> bool,
) -> Option<String> {
    let invalid = if errno == libc::EINVAL { invalid(raw) } else { None };
    invalid.or_else(|| exceeded_limit(raw, errno, machine)).or_else(|| match errno {
        libc::EINVAL | libc::EOPNOTSUPP | libc::EACCES => culprit(raw, errno, open),
        _ => None,
    })
}

/// What no kernel accepts (`perf_event_open` and `perf_copy_attr` in `kernel/events/core.c`, linux 6.12).
fn invalid(raw: &PerfEventAttr) -> Option<String> {
    let has = |flag| raw.flags & flag != 0;
    let (period, stack) = (raw.sample_period, raw.sample_stack_user);
    if !has(FLAG_FREQ) && period > LONGEST_PERIOD {
        Some(format!("a period of {period} events is too long: it must be less than 2^63"))
    } else if raw.sample_type & Content::USER_STACK.bits() != 0 && (!stack.is_multiple_of(8) || stack > MOST_STACK) {
        Some(format!(
            "the size of the stack (Sampler::user_stack) must be a multiple of 8, and at most {MOST_STACK}, not {stack}"
        ))
    } else if has(FLAG_SIGTRAP) && !has(FLAG_REMOVE_ON_EXEC) {
        Some("SIGTRAP (Sampler::sigtrap) requires Sampler::remove_on_exec".into())
    } else if has(FLAG_ENABLE_ON_EXEC) && has(FLAG_REMOVE_ON_EXEC) {
        Some(
            "an exec cannot both enable the event (Attr::enable_on_exec) and remove it (Sampler::remove_on_exec); \
             request one of the two"
                .into(),
        )
    } else {
        None
    }
}

/// The longest period: the kernel uses the highest bit itself.
pub(crate) const LONGEST_PERIOD: u64 = u64::MAX >> 1;
/// The most bytes of the stack in a sample: a record's size has 16 bits.
const MOST_STACK: u32 = 65_528;

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

/// Where in a request a part of it is, its bits, and its name.
type Part = (fn(&mut PerfEventAttr) -> &mut u64, u64, String);

/// What can be left out of a request.
fn parts(raw: &PerfEventAttr) -> impl Iterator<Item = Part> {
    let contents = Content::from_bits(raw.sample_type).named().map(|(content, name)| {
        let registers = |of, method| format!("these registers {of}(Sampler::{method}; see asm/perf_regs.h)");
        let samples = |method| format!("samples that contain {name} (Sampler::{method})");
        let what = match content {
            Content::USER_REGISTERS => registers("", "user_registers"),
            Content::INTERRUPT_REGISTERS => registers("of the interrupted code ", "interrupt_registers"),
            Content::USER_STACK => samples("user_stack"),
            Content::BRANCHES => samples("branches"),
            Content::AUX => samples("aux_samples"),
            _ => samples("content"),
        };
        (content.bits(), what)
    });
    let records = Records::from_bits(raw.flags).named();
    let records = records.map(|(records, name)| (records.bits(), format!("records of {name} (Sampler::records)")));
    let requests = REQUESTS.iter().map(|&(bits, name)| (bits, name.to_owned()));
    let all_contents = Content::ALL.iter().fold(0, |all, one| all | one.bits());
    let all_formats = ReadFormat::ALL.iter().fold(0, |all, one| all | one.bits());
    let contents = contents.chain([(!all_contents, "unknown bits of Sampler::content".to_owned())]);
    let flags = records.chain(requests).chain([(!KNOWN_FLAGS, "unknown bits of Sampler::records".to_owned())]);
    let contents = contents.map(|(bits, name)| -> Part { (|raw| &mut raw.sample_type, bits, name) });
    let flags = flags.map(|(bits, name)| -> Part { (|raw| &mut raw.flags, bits, name) });
    let formats: Part = (|raw| &mut raw.read_format, !all_formats, "the read format (Sampler::read_format)".into());
    contents.chain(flags).chain([formats])
}

/// The part of the request that the kernel refuses. Parts are left out one after another, until `open` succeeds.
fn culprit(raw: &PerfEventAttr, errno: i32, mut open: impl FnMut(&PerfEventAttr) -> bool) -> Option<String> {
    let mut rest = raw.clone();
    let mut is_refused = |(field, bits, _): &Part| {
        let field = field(&mut rest);
        if *field & bits == 0 {
            return false;
        }
        *field &= !bits;
        // The kernel checks these also where the content does not request them.
        for (content, field) in [
            (Content::USER_REGISTERS, &mut rest.sample_regs_user),
            (Content::INTERRUPT_REGISTERS, &mut rest.sample_regs_intr),
        ] {
            if rest.sample_type & content.bits() == 0 {
                *field = 0;
            }
        }
        if rest.sample_type & Content::AUX.bits() == 0 {
            rest.aux_sample_size = 0;
        }
        open(&rest)
    };
    let (.., what) = parts(raw).find(|part| is_refused(part))?;
    Some(match errno {
        libc::EACCES => {
            format!("this level of kernel.perf_event_paranoid requires CAP_PERFMON for {what}; leave it out")
        }
        libc::EOPNOTSUPP => format!("the PMU of this event does not support {what}; leave it out"),
        _ => format!("this kernel does not accept {what} for this event; change it or leave it out"),
    })
}
