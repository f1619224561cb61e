//! Samples of events, and other records that the kernel writes to a ring.
//!
//! A [`Sampler`] says which event is sampled and what each sample contains. [`Sampler::open`] opens it and maps its
//! [`Ring`], whose records a [`Reader`] reads:
//!
//! ```
//! use perfmark_rdpmc::sample::{Body, Content, Sampler};
//! use perfmark_rdpmc::{Attr, Software};
//!
//! match Sampler::new(Attr::new(Software::TaskClock)).content(Content::IP).open() {
//!     Ok(ring) => {
//!         std::hint::black_box((0..1_000_000_u64).filter(|n| n.is_power_of_two()).count());
//!         let mut reader = ring.reader()?;
//!         while let Some(record) = reader.read() {
//!             match record.body {
//!                 Body::Sample(sample) => println!("at {:x?}", sample.ip),
//!                 Body::Lost { lost, .. } => println!("{lost} samples were lost: the ring was full"),
//!                 other => println!("{other:?}"),
//!             }
//!         }
//!     }
//!     // The system call, its errno, the likely cause, the remedy.
//!     Err(why) => eprintln!("{why}"),
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! # Was the thread off its CPU?
//!
//! [`Ring::lock`] answers this without a system call, and the ring's records say for how long and why:
//!
//! ```
//! use perfmark_rdpmc::sample::{Body, Content, Records, Sampler};
//!
//! let sampler = Sampler::dummy().records(Records::CONTEXT_SWITCH).content(Content::TIME).pages(1);
//! if let Ok(ring) = sampler.open() {
//!     let before = ring.lock();
//!     std::thread::sleep(std::time::Duration::from_millis(1));
//!     if ring.lock() != before {
//!         let mut reader = ring.reader()?;
//!         while let Some(record) = reader.read() {
//!             if let Body::Switch(switch) = record.body {
//!                 println!("{:?}: {switch:?}", record.origin.time);
//!             }
//!         }
//!     }
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! # What may be sampled
//!
//! Without any permission, at the default level 2 of `kernel.perf_event_paranoid`: user mode of the process's own
//! threads, on every event of [`Event`](crate::Event)'s syntax that a thread may count. Each ring takes locked memory,
//! of which there is enough for [about a thousand](crate::support::LockedMemory::rings) small ones on most machines.
//!
//! A ring that is full loses records. The next record for which there is room is preceded by a [`Body::Lost`], and
//! [`Ring::count`] has the number of all that were lost.

mod record;
mod parameters;
mod sampler;
mod refusal;
mod ring;
mod reader;
mod control;
mod output;

pub use crate::flags::{Branches, Content, ReadFormat, Records, TransactionFlags};
pub use crate::source::Count;
pub use crate::sys::Ready;
pub(crate) use output::set_output;
pub use parameters::{AuxAction, Clock};
pub use reader::{Reader, wait, wait_or_wake};
pub use record::{
    Aux, Body, BpfEvent, Branch, BranchStack, Comm, DataSource, Ksymbol, Layout, MappedFile, Mmap, Mmap2, Mode,
    Namespaces, Origin, Read, Record, Registers, Sample, Stack, Switch, Task, TextPoke, ThreadId, Throttle,
    Transaction, Value, Values, Weight, Words,
};
pub use ring::Ring;
pub use sampler::Sampler;
