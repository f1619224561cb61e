//! Probes: events that count executions of an instruction in a program's file or in the kernel.
//!
//! perf creates them by `perf probe`, and its event grammar has no syntax for them. The kernel's PMUs `uprobe` and
//! `kprobe` require a pointer to a path or to a function's name in `config1`, and an offset in `config2`
//! (`perf_uprobe_init`, `perf_kprobe_init` in `kernel/trace/trace_event_perf.c`, linux 6.12). The terms `path=`,
//! `func=`, `offset=` and `addr=` are therefore defined by this crate; `retprobe` and `ref_ctr_offset=` are fields of
//! the PMUs' formats.

use std::ffi::CString;

use super::encoding::Encoding;
use super::failure::Failure;
use super::pmu::Pmu;
use super::term::{Term, Value};
use super::terms;

/// Whether the PMU is one of these two.
pub(super) fn is_probe(pmu: &str) -> bool {
    matches!(pmu, "uprobe" | "kprobe")
}

/// An example of an event of one of them.
pub(super) fn example(pmu: &str) -> &'static str {
    if pmu == "uprobe" { "uprobe/path=/bin/true,offset=0x1130/" } else { "kprobe/func=vfs_read/, or kprobe/addr=…/" }
}

/// Encodes an event of one of the two PMUs.
pub(super) fn encode(pmu: &Pmu<'_>, given: &[Term]) -> Result<Encoding, Failure> {
    let is_uprobe = pmu.name() == "uprobe";
    let (of_location, of_format): (Vec<&Term>, Vec<&Term>) =
        given.iter().partition(|term| matches!(term.name.as_str(), "path" | "func" | "offset" | "addr"));
    let of_format: Vec<Term> = of_format.into_iter().cloned().collect();
    let mut encoding = terms::encode(pmu, &of_format, false)?;
    encoding.kernel_only = !is_uprobe;
    let mut offset = None;
    let mut address = None;
    for term in of_location {
        let wrong = || Err(format!("{term} has no meaning for {}", pmu.name()).into());
        match (term.name.as_str(), &term.value) {
            ("path", Some(Value::Text(path))) if is_uprobe => encoding.text = Some(text(path)?),
            ("func", Some(Value::Text(name))) if !is_uprobe => encoding.text = Some(text(name)?),
            ("offset", Some(Value::Number(bytes))) => offset = Some(*bytes),
            ("addr", Some(Value::Number(value))) if !is_uprobe => address = Some(*value),
            _ => return wrong(),
        }
    }
    match (is_uprobe, &encoding.text, address, offset) {
        (true, None, ..) => return Err(format!("the file is missing: {}", example(pmu.name())).into()),
        (true, Some(_), _, None) => {
            return Err("offset= is missing: the offset of the instruction in the file, in bytes".into());
        }
        (false, None, None, _) => return Err(format!("the location is missing: {}", example(pmu.name())).into()),
        (false, Some(_), Some(_), _) | (false, _, Some(_), Some(_)) => {
            return Err("addr= cannot be combined with func= or offset=, as it is the location itself".into());
        }
        _ => {}
    }
    encoding.config2 = address.or(offset).unwrap_or(0);
    Ok(encoding)
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} contains a zero byte"))
}
