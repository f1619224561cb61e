//! The marks that scripts call: of each likely set of events, in each form.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::Poll;

use perfmark::perfmark;
use perfmark_rdpmc::script::Kind;

use crate::run::run_poll;

/// The index of an event in [`EVENTS`].
pub type EventIndex = usize;

/// What an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Ticks,
    /// Ticks, less all time off the CPU.
    OnCpu,
    /// All time off the CPU, or the part that was blocked, or preempted.
    OffCpu(usize),
    /// Allocated blocks, or their bytes.
    Allocated(usize),
    Counter(Kind),
}

pub const EVENTS: &[(&str, Source)] = &[
    ("time", Source::Ticks),
    ("on_cpu", Source::OnCpu),
    ("off_cpu", Source::OffCpu(0)),
    ("blocked", Source::OffCpu(1)),
    ("preempted", Source::OffCpu(2)),
    ("allocations", Source::Allocated(0)),
    ("allocated_bytes", Source::Allocated(1)),
    ("cycles", Source::Counter(Kind::Hardware(0))),
    ("cache-misses", Source::Counter(Kind::Hardware(3))),
    ("branch-misses", Source::Counter(Kind::Hardware(5))),
    ("cache-references", Source::Counter(Kind::Hardware(2))),
    ("page-faults", Source::Counter(Kind::Software(2))),
    ("minor-faults", Source::Counter(Kind::Software(5))),
];

/// How a call, or a poll of one, ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    End,
    Return,
    /// By a panic, which unwinds so many calls around it, too.
    Panic(usize),
    /// A poll only.
    Pending,
}

/// What a panic carries: how many calls around it, it unwinds.
pub struct Levels(pub usize);

/// `None` for a call that ends by `return`.
fn end(exit: Exit) -> Option<()> {
    match exit {
        Exit::Panic(levels) => resume_unwind(Box::new(Levels(levels))),
        Exit::Return => None,
        Exit::End | Exit::Pending => Some(()),
    }
}

pub type Body<'a> = &'a mut dyn FnMut() -> Exit;
pub type Polled = Pin<Box<dyn Future<Output = ()> + Send>>;

pub enum Form {
    Call(fn(Body<'_>) -> Option<()>),
    /// [`run_poll`] has the body of the next poll.
    Async(fn() -> Polled),
}

pub struct Mark {
    pub name: &'static str,
    pub events: &'static [&'static str],
    /// One call in so many is measured.
    pub every: u64,
    pub form: Form,
}

/// The number of marks with the same events. The first three are not async.
pub const FORMS: usize = 5;

/// The index of a mark in [`MARKS`].
pub type MarkIndex = usize;

/// The events of a mark.
pub fn events_of(mark: MarkIndex) -> impl Iterator<Item = EventIndex> {
    let index = |name: &str| EVENTS.iter().position(|(event, _)| event.replace('-', "_") == name).expect("known");
    MARKS[mark].events.iter().map(move |name| index(name))
}

/// The counters that the marks use.
pub fn counters() -> Vec<Kind> {
    let kind = |(_, source): &(_, Source)| if let Source::Counter(kind) = source { Some(*kind) } else { None };
    EVENTS.iter().filter_map(kind).collect()
}

/// Those that the processor has.
pub fn hardware() -> Vec<Kind> {
    counters().into_iter().filter(|kind| matches!(kind, Kind::Hardware(_))).collect()
}

macro_rules! marks {
    ($(
        $call:ident $every:ident $fenced:ident $polled:ident $polled_fence:ident: $($event:ident)*;
    )*) => {
        $(
            #[perfmark($($event),*)]
            fn $call(body: Body<'_>) -> Option<()> {
                end(body())?;
                Some(())
            }
            #[perfmark($($event,)* every = 3)]
            fn $every(body: Body<'_>) -> Option<()> {
                end(body())?;
                Some(())
            }
            #[perfmark($($event,)* fence)]
            fn $fenced(body: Body<'_>) -> Option<()> {
                end(body())?;
                Some(())
            }
            #[perfmark($($event),*)]
            async fn $polled() {
                poll_fn(|_| poll()).await;
            }
            #[perfmark($($event,)* fence)]
            async fn $polled_fence() {
                poll_fn(|_| poll()).await;
            }
        )*
        pub const MARKS: &[Mark] = &[$(
            Mark { name: stringify!($call), events: &[$(stringify!($event)),*], every: 1, form: Form::Call($call) },
            Mark { name: stringify!($every), events: &[$(stringify!($event)),*], every: 3, form: Form::Call($every) },
            Mark { name: stringify!($fenced), events: &[$(stringify!($event)),*], every: 1, form: Form::Call($fenced) },
            Mark {
                name: stringify!($polled),
                events: &[$(stringify!($event)),*],
                every: 1,
                form: Form::Async(|| Box::pin($polled())),
            },
            Mark {
                name: stringify!($polled_fence),
                events: &[$(stringify!($event)),*],
                every: 1,
                form: Form::Async(|| Box::pin($polled_fence())),
            },
        )*];
    };
}

fn poll() -> Poll<()> {
    let exit = run_poll();
    _ = end(exit);
    if exit == Exit::Pending { Poll::Pending } else { Poll::Ready(()) }
}

marks! {
    t t_every t_fence t_poll t_poll_fence: time;
    c c_every c_fence c_poll c_poll_fence: cycles;
    tc tc_every tc_fence tc_poll tc_poll_fence: time cycles;
    cm cm_every cm_fence cm_poll cm_poll_fence: cycles cache_misses;
    tcm tcm_every tcm_fence tcm_poll tcm_poll_fence: time cycles cache_misses;
    cmb cmb_every cmb_fence cmb_poll cmb_poll_fence: cycles cache_misses branch_misses;
    tcmb tcmb_every tcmb_fence tcmb_poll tcmb_poll_fence: time cycles cache_misses branch_misses;
    cmbr cmbr_every cmbr_fence cmbr_poll cmbr_poll_fence:
        cycles cache_misses branch_misses cache_references;
    o o_every o_fence o_poll o_poll_fence: off_cpu;
    to to_every to_fence to_poll to_poll_fence: time off_cpu;
    tco tco_every tco_fence tco_poll tco_poll_fence: time cycles off_cpu;
    tcmo tcmo_every tcmo_fence tcmo_poll tcmo_poll_fence: time cycles cache_misses off_cpu;
    cmo cmo_every cmo_fence cmo_poll cmo_poll_fence: off_cpu cycles cache_misses;
    n n_every n_fence n_poll n_poll_fence: on_cpu;
    no no_every no_fence no_poll no_poll_fence: off_cpu on_cpu;
    nc nc_every nc_fence nc_poll nc_poll_fence: cycles on_cpu;
    tob tob_every tob_fence tob_poll tob_poll_fence: time off_cpu blocked;
    tobp tobp_every tobp_fence tobp_poll tobp_poll_fence: time off_cpu blocked preempted;
    ta ta_every ta_fence ta_poll ta_poll_fence: time allocated_bytes;
    tab tab_every tab_fence tab_poll tab_poll_fence: time allocations allocated_bytes;
    ca ca_every ca_fence ca_poll ca_poll_fence: cycles allocations;
    tn tn_every tn_fence tn_poll tn_poll_fence: time on_cpu;
    p p_every p_fence p_poll p_poll_fence: page_faults;
    cpm cpm_every cpm_fence cpm_poll cpm_poll_fence: cycles page_faults minor_faults;
    all all_every all_fence all_poll all_poll_fence:
        time cycles cache_misses branch_misses cache_references page_faults off_cpu preempted;
}
