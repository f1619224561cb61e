//! This crate's marks.

use std::convert::identity;
use std::env;

use perfmark::perfmark;
use perfmark_rdpmc::{Attr, Counter, Hardware};

use crate::batch::Case;
use crate::contender::Contender;

/// A function that does nothing but its mark, which has these arguments.
macro_rules! leaf {
    ($name:literal, ($($arguments:tt)*) $(, $set:ident: $number:literal)?) => {{
        function! { #[perfmark($($arguments)*, name = $name)] fn marked => identity }
        Contender::new($name, Case::leaf(marked).recorded(|| recorded($name))$(.$set($number))?)
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
        // Off is off for the whole process.
        leaf!("#[perfmark(time)], PERFMARK=off", (time), times: 10).in_child(),
        leaf!("#[perfmark(page_faults)], by read(2)", (page_faults), calls: 100),
        leaf!("#[perfmark(cycles, instructions)]", (cycles, instructions))
            .needs(Counter::open(&Attr::new(Hardware::Instructions))),
    ]
}

/// Of the calls made, those that the snapshot has; all, where the user switched marks off.
fn recorded(mark: &str) -> u64 {
    if env::var_os("PERFMARK").is_some_and(|value| value == "off") {
        return u64::MAX;
    }
    perfmark::snapshot().marks.iter().filter(|recorded| recorded.name == mark).map(|recorded| recorded.calls).sum()
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
