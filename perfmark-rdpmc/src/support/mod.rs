//! What this machine allows this process to count: the kernel's settings, the results of test calls, and a remedy for
//! each obstacle.

mod confinement;
mod pmus;
mod virtual_machine;
mod switch_cost;
mod trial;
mod data;
mod number;
mod findings;
mod display;

pub use crate::locked_memory::LockedMemory;
pub use crate::rights::Rights;
pub use confinement::{Confinement, Container};
pub use data::Support;
pub use findings::{Finding, Status};
pub use pmus::{CorePmu, Counters};
pub use trial::{Cost, LoopCheck, Time, Trial};
pub use virtual_machine::VirtualMachine;

use crate::machine::Machine;
use crate::sys;

/// Determines what the calling thread can count, how, and what prevents the rest.
///
/// It reads procfs and sysfs, opens a few events one after another, and executes two million instructions. It starts
/// two threads, which take turns on one CPU to measure a context switch. When it returns, the threads have ended and
/// the events are closed. It takes some milliseconds, and on a busy machine up to a tenth of a second longer.
///
/// ```
/// let support = perfmark_rdpmc::support();
/// println!("{support}");
/// for finding in support.findings() {
///     if let Some(remedy) = finding.remedy {
///         println!("to get {}: {remedy}", finding.subject);
///     }
/// }
/// ```
#[must_use]
pub fn support() -> Support {
    let machine = Machine::here();
    let mut support = Support::of(&machine);
    if support.target {
        let several = support.core_pmus.len() > 1;
        for pmu in &mut support.core_pmus {
            pmu.count(several);
        }
        let trial = Trial::here();
        support.rights.note_user_mode_opens(trial.user_mode.is_ok());
        support.trial = Some(trial);
        support.locked_memory.page_bytes = Some(sys::page_size());
    }
    support
}
