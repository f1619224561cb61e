//! Why the kernel refuses to open an event, if it is because of its samples or other records.

use crate::flags::{Content, ReadFormat, Records};
use crate::machine::Machine;
use crate::rights::Rights;
use crate::sys::{
    FLAG_AUX_OUTPUT, FLAG_ENABLE_ON_EXEC, FLAG_EXCLUDE_IDLE, FLAG_FREQ, FLAG_INHERIT, FLAG_INHERIT_THREAD,
    FLAG_REMOVE_ON_EXEC, FLAG_SIGTRAP, FLAG_USE_CLOCKID, FLAG_WRITE_BACKWARD, PRECISE_IP_SHIFT, PerfEventAttr,
};

/// Requests of which each may be refused on its own, and the bits that make them.
const REQUESTS: [(u64, &str); 9] = [
    (0b11 << PRECISE_IP_SHIFT, "precise_ip (Attr::precise_ip)"),
    (FLAG_EXCLUDE_IDLE, "the exclusion of the idle task (Attr::exclude_idle)"),
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

/// The cause and the remedy. `error_of` is the kernel's answer to another request.
pub(super) fn reason(
    raw: &PerfEventAttr,
    errno: i32,
    machine: &Machine,
    error_of: impl FnMut(&PerfEventAttr) -> Option<i32>,
) -> Option<String> {
    let invalid = if errno == libc::EINVAL { invalid(raw) } else { None };
    invalid.or_else(|| exceeded_limit(raw, errno, machine)).or_else(|| match errno {
        libc::EINVAL | libc::EOPNOTSUPP | libc::EACCES => culprit(raw, errno, machine, error_of),
        _ => None,
    })
}

/// What no kernel accepts (`perf_event_open` and `perf_copy_attr` in `kernel/events/core.c`, linux 6.12).
fn invalid(raw: &PerfEventAttr) -> Option<String> {
    let has = |flag| raw.flags & flag != 0;
    let contains = |content: Content| raw.sample_type & content.bits() != 0;
    let (period, stack) = (raw.sample_period, raw.sample_stack_user);
    let why = if !has(FLAG_FREQ) && period > LONGEST_PERIOD {
        return Some(format!("a period of {period} events is too long: it must be less than 2^63"));
    } else if contains(Content::USER_STACK) && (!stack.is_multiple_of(8) || stack > MOST_STACK) {
        return Some(format!(
            "the size of the stack (Sampler::user_stack) must be a multiple of 8, and at most {MOST_STACK}, not {stack}"
        ));
    } else if contains(Content::WEIGHT) && contains(Content::WEIGHT_PARTS) {
        "samples contain the weight either as WEIGHT or as WEIGHT_PARTS; request one of the two"
    } else if has(FLAG_INHERIT) && contains(Content::READ) && !contains(Content::THREAD) {
        "samples of an event that inherits contain counts (Content::READ) only beside the thread (Content::THREAD, \
         linux 6.13)"
    } else if has(FLAG_SIGTRAP) && !has(FLAG_REMOVE_ON_EXEC) {
        "SIGTRAP (Sampler::sigtrap) requires Sampler::remove_on_exec"
    } else if has(FLAG_ENABLE_ON_EXEC) && has(FLAG_REMOVE_ON_EXEC) {
        "an exec cannot both enable the event (Attr::enable_on_exec) and remove it (Sampler::remove_on_exec); request \
         one of the two"
    } else {
        return None;
    };
    Some(why.into())
}

/// The longest period: the kernel uses the highest bit itself.
const LONGEST_PERIOD: u64 = u64::MAX >> 1;
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

/// Leaves bits out of a request; the bits; and what they request.
type Part = (fn(&mut PerfEventAttr, u64), u64, String);

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
    let contents = contents.chain([(!all_contents, "contents that it does not know (Sampler::content)".to_owned())]);
    let unknown_flags = "flags that it does not know (Sampler::records, Field::Flags)".to_owned();
    let flags = records.chain(requests).chain([(!KNOWN_FLAGS, unknown_flags)]);
    let contents = contents.map(|(bits, what)| -> Part { (leave_out_contents, bits, what) });
    let flags = flags.map(|(bits, what)| -> Part { (|raw, bits| raw.flags &= !bits, bits, what) });
    let of_the_rest: [Part; 2] = [
        (|raw, _| raw.aux_action = 0, 0, "an action on a trace (Sampler::aux_action, linux 6.13)".into()),
        (|raw, bits| raw.read_format &= !bits, !all_formats, "the read format (Sampler::read_format)".into()),
    ];
    contents.chain(flags).chain(of_the_rest)
}

fn leave_out_contents(raw: &mut PerfEventAttr, bits: u64) {
    raw.sample_type &= !bits;
    // The kernel checks these also where the content does not request them.
    for (content, mask) in [
        (Content::USER_REGISTERS, &mut raw.sample_regs_user),
        (Content::INTERRUPT_REGISTERS, &mut raw.sample_regs_intr),
    ] {
        if bits & content.bits() != 0 {
            *mask = 0;
        }
    }
    if bits & Content::AUX.bits() != 0 {
        raw.aux_sample_size = 0;
    }
}

/// The part of the request that the kernel refuses: parts are left out one after another until it answers otherwise.
fn culprit(
    raw: &PerfEventAttr,
    errno: i32,
    machine: &Machine,
    mut error_of: impl FnMut(&PerfEventAttr) -> Option<i32>,
) -> Option<String> {
    let mut rest = raw.clone();
    let is_culprit = |(leave_out, bits, _): &Part| {
        leave_out(&mut rest, *bits);
        error_of(&rest) != Some(errno)
    };
    let (.., what) = parts(raw).find(is_culprit)?;
    Some(match errno {
        libc::EACCES => {
            let rights = Rights::of(machine);
            let (level, namespace) = (rights.level(), rights.namespace());
            // `perf_event_open`; all else asks `perf_allow_kernel`.
            if what.contains("NAMESPACES") {
                format!("{what} require CAP_PERFMON at every level of kernel.perf_event_paranoid{namespace}")
            } else {
                format!("{level}: {what} require CAP_PERFMON, or level 1{namespace}")
            }
        }
        libc::EOPNOTSUPP => format!("the PMU of this event does not support {what}; leave that out"),
        _ => format!("this kernel does not accept {what} for this event; change that, or leave it out"),
    })
}
