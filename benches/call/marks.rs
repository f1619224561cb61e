//! This crate's marks.

use std::convert::identity;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use std::{env, thread};

use perfmark::{Filter, perfmark, set_filter};
use perfmark_rdpmc::{Attr, Counter, Hardware};

use crate::batch::Case;
use crate::contender::Contender;

/// A function that does nothing except for its mark, which has these arguments.
macro_rules! leaf {
    ($name:literal, ($($arguments:tt)*) $(, $set:ident: $number:literal)?) => {{
        function! { #[perfmark($($arguments)*, name = $name)] fn marked => identity }
        Contender::new($name, counted(Case::leaf(marked), || recorded($name))$(.$set($number))?)
    }};
}

pub(crate) fn contenders() -> Vec<Contender> {
    vec![
        leaf!("#[perfmark(time)]", (time)),
        leaf!("#[perfmark(time, every = 64)]", (time, every = 64)),
        leaf!("#[perfmark(time, fence)]", (time, fence)),
        Contender::new("#[perfmark(time)] with self: caller and callee, each", Case::new(caller, plain_caller, 2)),
        Contender::new("#[perfmark(time)] nested: four deep, each", Case::new(nested_4, plain_4, 4)),
        Contender::new(
            "#[perfmark(time)], where marks of the thread have other events",
            Case::leaf(among_others).around(|batch| {
                other(0);
                batch();
            }),
        ),
        Contender::new(
            "#[perfmark(time)], filter set every ms",
            counted(Case::leaf(filtered), || recorded("filtered"))
                .calls(LONG)
                .around(|batch| setting_filters("*::filtered=time", batch)),
        )
        .slow(),
        Contender::new(
            "#[perfmark(time, every = 64)], filter set every ms",
            counted(Case::leaf(filtered_64), || recorded("filtered_64"))
                .calls(LONG)
                .around(|batch| setting_filters("*::filtered_64=every:61", batch)),
        )
        .slow(),
        // `off` applies to the complete process.
        leaf!("#[perfmark(time)], PERFMARK=off", (time), times: 10).in_child(),
        leaf!("#[perfmark(page_faults)], by read(2)", (page_faults), calls: 100),
        leaf!("#[perfmark(cycles, instructions)]", (cycles, instructions))
            .needs(Counter::open(&Attr::new(Hardware::Instructions))),
    ]
}

/// The case, with a check that the snapshot contains all calls, unless the user has switched marks off.
fn counted(case: Case, recorded: fn() -> u64) -> Case {
    if env::var_os("PERFMARK").is_some_and(|value| value == "off") { case } else { case.recorded(recorded).alone() }
}

/// The mark's calls in the snapshot.
fn recorded(mark: &str) -> u64 {
    perfmark::snapshot().marks.iter().filter(|recorded| recorded.name == mark).map(|recorded| recorded.calls).sum()
}

function! { #[perfmark(time)] fn filtered => identity }
function! { #[perfmark(time, every = 64)] fn filtered_64 => identity }

/// The number of calls that take some milliseconds.
const LONG: u32 = 100_000;

/// Runs the batch while another thread alternately sets and removes this filter.
fn setting_filters(filter: &str, batch: &mut dyn FnMut()) {
    let filters = [filter.parse().expect("a filter"), Filter::default()];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for filter in filters.iter().cycle().take_while(|_| !is_over.load(Relaxed)) {
                set_filter(filter).expect("slots for settings");
                thread::sleep(Duration::from_millis(1));
            }
        });
        batch();
        is_over.store(true, Relaxed);
    });
    set_filter(&Filter::default()).expect("slots for settings");
}

function! { #[perfmark(time)] fn among_others => identity }
function! { #[perfmark(time, fence)] fn other => identity }

function! { #[perfmark(time)] fn caller => callee }
function! { #[perfmark(time)] fn callee => identity }
function! { fn plain_caller => plain_callee }
function! { fn plain_callee => identity }

function! { #[perfmark(time)] fn nested_4 => nested_3 }
function! { #[perfmark(time)] fn nested_3 => nested_2 }
function! { #[perfmark(time)] fn nested_2 => nested_1 }
function! { #[perfmark(time)] fn nested_1 => identity }
function! { fn plain_4 => plain_3 }
function! { fn plain_3 => plain_2 }
function! { fn plain_2 => plain_1 }
function! { fn plain_1 => identity }
