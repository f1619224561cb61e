//! Probes: instructions in a program's file or in the kernel that count when they are executed.
//!
//! perf makes them by `perf probe` and has no words for them in its events' grammar. The kernel's PMUs `uprobe` and `kprobe` want a
//! pointer to a path or a function's name in `config1`, and an offset in `config2` (`perf_uprobe_init`, `perf_kprobe_init` in
//! `kernel/trace/trace_event_perf.c`, linux 6.12). So the terms `path=`, `func=`, `offset=` and `addr=` are this crate's; `retprobe` and
//! `ref_ctr_offset=` are fields of the PMUs' formats.

use std::ffi::CString;

use super::encoding::Encoding;
use super::failure::Failure;
use super::pmu::Pmu;
use super::term::{Term, Value};
use super::terms;

/// Whether the PMU is one of the two.
pub(super) fn is_probe(pmu: &str) -> bool {
    matches!(pmu, "uprobe" | "kprobe")
}

/// How an event of one of them is written.
pub(super) fn example(pmu: &str) -> &'static str {
    if pmu == "uprobe" { "uprobe/path=/bin/true,offset=0x1130/" } else { "kprobe/func=vfs_read/, or kprobe/addr=…/" }
}

/// An event of one of the two PMUs.
pub(super) fn encode(pmu: &Pmu<'_>, given: &[Term]) -> Result<Encoding, Failure> {
    let is_uprobe = pmu.name() == "uprobe";
    let (of_place, of_format): (Vec<&Term>, Vec<&Term>) =
        given.iter().partition(|term| matches!(term.name.as_str(), "path" | "func" | "offset" | "addr"));
    let of_format: Vec<Term> = of_format.into_iter().cloned().collect();
    let mut encoding = terms::encode(pmu, &of_format, false)?;
    encoding.kernel_only = !is_uprobe;
    let mut offset = None;
    let mut address = None;
    for term in of_place {
        let wrong = || Err(format!("{term} has no meaning for {}", pmu.name()).into());
        match (term.name.as_str(), &term.value) {
            ("path", Some(Value::Text(path))) if is_uprobe => encoding.text = Some(text(path)?),
            ("func", Some(Value::Text(name))) if !is_uprobe => encoding.text = Some(text(name)?),
            ("offset", Some(Value::Number(bytes))) => offset = Some(*bytes),
            ("addr", Some(Value::Number(place))) if !is_uprobe => address = Some(*place),
            _ => return wrong(),
        }
    }
    match (is_uprobe, &encoding.text, address, offset) {
        (true, None, ..) => return Err(format!("the file is missing: {}", example(pmu.name())).into()),
        (true, Some(_), _, None) => {
            return Err("offset= is missing: the instruction's place in the file, in bytes".into());
        }
        (false, None, None, _) => return Err(format!("the place is missing: {}", example(pmu.name())).into()),
        (false, Some(_), Some(_), _) | (false, _, Some(_), Some(_)) => {
            return Err("addr= stands alone: it is the place itself".into());
        }
        _ => {}
    }
    encoding.config2 = address.or(offset).unwrap_or(0);
    Ok(encoding)
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} holds a zero byte"))
}
