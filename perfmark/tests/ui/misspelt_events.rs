//! A misspelt event is an error with a suggestion. Quoted names may be those of a PMU's events, unless they are a near
//! miss of a generic name.

use perfmark::{perfmark, region};

#[perfmark(cycels)]
fn swapped_letters() {}

#[perfmark("branch_mises")]
fn quoted() {}

#[perfmark("Page-Fault:u")]
fn with_a_modifier() {}

#[perfmark(cycles, genric)]
fn option() {}

#[perfmark(dcache)]
fn part_of_a_name() {}

#[perfmark(nonsense)]
fn unknown() {}

#[perfmark(branch-misses)]
fn with_a_hyphen() {}

#[perfmark(time, L1-dcache-load-misses, cycles)]
fn with_hyphens() {}

#[perfmark(branch-mises)]
fn misspelt_with_a_hyphen() {}

#[perfmark(mem-loads)]
fn of_a_pmu_with_a_hyphen() {}

#[perfmark(cpu/event=0xc2,umask=1/)]
fn without_quotes() {}

#[perfmark(cycles:u)]
fn modifier_without_quotes() {}

#[perfmark("time:u")]
fn modifier_of_time() {}

#[perfmark(time:k)]
fn modifier_of_time_without_quotes() {}

perfmark::defaults!(instuctions);

struct Table;

#[perfmark(brnches)]
impl Table {
    fn in_a_container() -> u32 {
        region!("region", page_fautls, { 1 })
    }
}

#[perfmark("mem-loads", "l2_rqsts.miss", "cpu/cycels/", "CPU_CYCLES", "cycles-t")]
fn possible() {}

fn main() {
    Table::in_a_container();
}
