//! Misspelt names of events, and the names that were meant.
//!
//! perf's grammar accepts any name, because a PMU may list an event of that name. Near misses of generic names are
//! refused, so that they do not end as a missing column in a report.

use perfmark_rdpmc::{CacheEvent, Hardware, Software, difference, nearest};

/// The events that perfmark defines itself.
pub(crate) const OWN_EVENTS: [&str; 8] =
    ["time", "on_cpu", "off_cpu", "blocked", "preempted", "suspended", "allocations", "allocated_bytes"];

/// Words for an event that are not similar to its name.
const SYNONYMS: &[(&str, &str)] = &[
    ("alloc", "allocations"),
    ("alloc_bytes", "allocated_bytes"),
    ("allocated", "allocated_bytes"),
    ("allocs", "allocations"),
    ("context_switch", "context_switches"),
    ("cpu_time", "on_cpu"),
    ("ctx_switches", "context_switches"),
    ("duration", "time"),
    ("elapsed", "time"),
    ("elapsed_time", "time"),
    ("insns", "instructions"),
    ("instr", "instructions"),
    ("instrs", "instructions"),
    ("insts", "instructions"),
    ("latency", "time"),
    ("mispredictions", "branch_misses"),
    ("mispredicts", "branch_misses"),
    ("nanoseconds", "time"),
    ("real_time", "time"),
    ("thread_time", "on_cpu"),
    ("wait_time", "off_cpu"),
    ("waiting", "off_cpu"),
    ("wall", "time"),
    ("wall_clock", "time"),
    ("wall_time", "time"),
];

/// Events that Linux lists for a PMU although their names are similar to generic ones, on x86 (transactions, branch
/// sampling), arm64 and s390 (linux 6.16, `arch/*/events`, `drivers/perf/arm_pmuv3.c`,
/// `arch/s390/kernel/perf_cpum_cf_events.c`).
const LISTED: [&str; 6] = ["CPU-CYCLES", "INSTRUCTIONS", "branch-brs", "cnt-cycles", "cycles-ct", "cycles-t"];

/// The name that `wrong` was meant to be, as it is written without quotes. `words` are possible in addition to events.
/// `None` if a PMU may list an event of this name.
pub(crate) fn meant(wrong: &str, words: &[&str]) -> Option<String> {
    if LISTED.contains(&&*wrong.replace('_', "-")) {
        return None;
    }
    let is_same = |word: &str| difference(wrong, word, 0).is_some();
    if let Some((_, event)) = SYNONYMS.iter().find(|(word, _)| is_same(word)) {
        return Some((*event).to_owned());
    }
    let allowed = match wrong.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).count() {
        0..5 => 0,
        5..8 => 1,
        _ => 2,
    };
    let names = names(words);
    let near = names.iter().filter_map(|name| Some((difference(wrong, name, allowed)?, name)));
    near.min().map(|(_, name)| name.clone())
}

/// Names that `wrong` may be a part or an abbreviation of.
pub(crate) fn similar(wrong: &str, words: &[&str]) -> Vec<String> {
    let names = names(words);
    nearest(wrong, names.iter().map(String::as_str)).into_iter().take(3).map(str::to_owned).collect()
}

/// perfmark's own events, the generic ones and the words, as they are written without quotes.
fn names(words: &[&str]) -> Vec<String> {
    let hardware = Hardware::ALL.iter().flat_map(|event| event.names());
    let generic = hardware.chain(Software::ALL.iter().flat_map(|event| event.names())).copied();
    let names = generic.chain(OWN_EVENTS).chain(words.iter().copied()).map(str::to_owned);
    names.chain(CacheEvent::all().map(|event| event.to_string())).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events that Linux lists for core PMUs and can count for one thread (linux 6.16; see [`LISTED`]).
    const OF_PMUS: &str = "mem-loads mem-stores mem-loads-aux slots topdown-retiring topdown-bad-spec topdown-fe-bound \
        topdown-be-bound topdown-heavy-ops topdown-br-mispredict topdown-fetch-lat topdown-mem-bound \
        topdown-total-slots topdown-slots-issued topdown-slots-retired topdown-fetch-bubbles topdown-recovery-bubbles \
        tx-start tx-commit tx-abort tx-capacity tx-conflict el-start el-commit el-abort el-capacity el-conflict \
        cycles-t cycles-ct branch-brs tsc aperf mperf pperf smi ptsc irperf cpu_thermal_margin \
        sw_incr l1i_cache_refill l1i_tlb_refill l1d_cache_refill l1d_cache l1d_tlb_refill ld_retired st_retired \
        inst_retired exc_taken exc_return cid_write_retired pc_write_retired br_immed_retired br_return_retired \
        unaligned_ldst_retired br_mis_pred br_pred mem_access l1i_cache l1d_cache_wb l2d_cache l2d_cache_refill \
        l2d_cache_wb bus_access memory_error inst_spec ttbr_write_retired l1d_cache_allocate l2d_cache_allocate \
        br_retired br_mis_pred_retired stall_frontend stall_backend l1d_tlb l1i_tlb l2i_cache l2i_cache_refill \
        l3d_cache_allocate l3d_cache_refill l3d_cache l3d_cache_wb l2d_tlb_refill l2i_tlb_refill l2d_tlb l2i_tlb \
        remote_access ll_cache ll_cache_miss dtlb_walk itlb_walk ll_cache_rd ll_cache_miss_rd remote_access_rd \
        l1d_cache_lmiss_rd op_retired op_spec stall stall_slot_backend stall_slot_frontend stall_slot sample_pop \
        sample_feed sample_filtrate sample_collision cnt_cycles stall_backend_mem l1i_cache_lmiss l2d_cache_lmiss_rd \
        l2i_cache_lmiss l3d_cache_lmiss_rd trb_wrap pmu_hovfs trb_trig trcextout0 cti_trigout4 ldst_align_lat \
        ld_align_lat st_align_lat mem_access_checked mem_access_checked_rd mem_access_checked_wr \
        CPU_CYCLES INSTRUCTIONS L1I_DIR_WRITES L1I_PENALTY_CYCLES PROBLEM_STATE_CPU_CYCLES \
        PROBLEM_STATE_INSTRUCTIONS L1D_DIR_WRITES L1D_PENALTY_CYCLES PM_CYC PM_INST_CMPL PM_BR_MPRED_CMPL MEM_LOADS";

    #[test]
    fn no_event_that_a_pmu_lists_is_misspelt() {
        for name in OF_PMUS.split_whitespace() {
            assert_eq!(meant(name, &[]), None, "{name}");
            assert_eq!(meant(&name.replace('-', "_"), &[]), None, "{name}");
        }
        for name in LISTED {
            assert!(OF_PMUS.replace('_', "-").split_whitespace().any(|listed| listed == name), "{name}");
            assert!(names(&[]).iter().any(|known| difference(name, known, 2).is_some()), "{name} is similar to none");
        }
    }

    #[test]
    fn synonyms_are_not_names_and_mean_names() {
        let names = names(&[]);
        for (word, event) in SYNONYMS {
            assert!(names.iter().any(|name| name == event), "{event}");
            assert!(names.iter().all(|name| difference(name, word, 0).is_none()), "{word}");
        }
    }

    #[test]
    fn a_word_is_not_stretched_to_a_name() {
        for wrong in ["x", "l2", "tme", "nonsense", "retired", "l2_rqsts.miss", "uops_issued.any", "slots"] {
            assert_eq!(meant(wrong, &["fence"]), None, "{wrong}");
        }
        assert_eq!(meant("fense", &["fence"]).as_deref(), Some("fence"));
        assert!(similar("dcache", &[]).contains(&"L1_dcache_loads".to_owned()));
        assert_eq!(similar("tme", &[]), ["time"]);
    }
}
