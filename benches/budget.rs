//! What a budget and `every` save, and what they do to selfs and to the order of marks: a parser with marks on all its
//! functions, which takes turns with the same parser unmarked.
//!
//! ```sh
//! cargo bench -p benches --bench budget                # about two minutes
//! cargo bench -p benches --bench budget -- --record    # also writes to records/
//! ```
//!
//! A ratio is the CPU time of the marked parser to that of the unmarked one in the same round. Before each measured
//! run, one that is not measured lets the budget choose what it measures.

use std::env;
use std::fmt::Write as _;
use std::hint::black_box;

use benches::clocks::cpu_time;
use benches::{record, table};
use perfmark::{Budget, Filter, Snapshot, set_budget, set_filter, snapshot};

const ROUNDS: usize = 21;
/// Of the marks with the largest self, the number that is compared.
const HOTTEST: usize = 5;

/// A parser of sums and products, with many calls of small functions.
macro_rules! parser {
    ($name:ident $(, #[$mark:meta])?) => {
        mod $name {
            pub(super) struct Parser<'a> {
                rest: &'a [u8],
            }

            $(#[$mark])?
            impl<'a> Parser<'a> {
                #[inline(never)]
                pub(super) fn value(text: &'a [u8]) -> u64 {
                    Parser { rest: text }.sum()
                }

                #[inline(never)]
                fn sum(&mut self) -> u64 {
                    let mut value = self.product();
                    while self.skip(b'+') {
                        value = value.wrapping_add(self.product());
                    }
                    value
                }

                #[inline(never)]
                fn product(&mut self) -> u64 {
                    let mut value = self.factor();
                    while self.skip(b'*') {
                        value = value.wrapping_mul(self.factor());
                    }
                    value
                }

                #[inline(never)]
                fn factor(&mut self) -> u64 {
                    if self.skip(b'"') { self.text() } else { self.number() }
                }

                #[inline(never)]
                fn number(&mut self) -> u64 {
                    let mut value = 0_u64;
                    while let Some(digit @ b'0'..=b'9') = self.peek() {
                        self.advance();
                        value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
                    }
                    value
                }

                #[inline(never)]
                fn text(&mut self) -> u64 {
                    let end = self.rest.iter().position(|&byte| byte == b'"').unwrap_or(self.rest.len());
                    let (text, rest) = self.rest.split_at(end);
                    self.rest = rest.get(1..).unwrap_or(&[]);
                    text.iter().fold(7, |hash: u64, &byte| hash.rotate_left(5) ^ u64::from(byte))
                }

                #[inline(never)]
                fn skip(&mut self, byte: u8) -> bool {
                    let is_next = self.peek() == Some(byte);
                    if is_next {
                        self.advance();
                    }
                    is_next
                }

                #[inline(never)]
                fn peek(&self) -> Option<u8> {
                    self.rest.first().copied()
                }

                #[inline(never)]
                fn advance(&mut self) {
                    self.rest = &self.rest[1..];
                }
            }
        }
    };
}

parser!(unmarked);
parser!(marked, #[perfmark::perfmark(time)]);

#[derive(Clone, Copy, PartialEq)]
enum Setting {
    Off,
    Every(u32),
    Percent(f64),
    Full,
}

const SETTINGS: [(&str, Setting); 8] = [
    ("off", Setting::Off),
    ("all calls skipped", SKIPPED),
    ("one call in 64", Setting::Every(64)),
    ("one call in 1,024", Setting::Every(1_024)),
    ("budget 0.5 %", Setting::Percent(0.5)),
    ("budget 2 %", Setting::Percent(2.0)),
    ("budget 10 %", Setting::Percent(10.0)),
    ("all calls measured", Setting::Full),
];

const SKIPPED: Setting = Setting::Every(u32::MAX);

impl Setting {
    fn set(self) -> Result<(), Box<dyn std::error::Error>> {
        let filter = match self {
            Self::Off => Filter::default().off("*"),
            Self::Every(calls) => Filter::default().every("*", calls),
            Self::Percent(_) | Self::Full => Filter::default(),
        };
        let budget = if let Self::Percent(percent) = self { Some(Budget::percent(percent)?) } else { None };
        Ok(set_filter(&filter).and_then(|()| set_budget(budget))?)
    }
}

/// The self of each mark in nanoseconds, the largest one first, and the share of calls that was measured.
fn selfs(snapshot: &Snapshot) -> (Vec<(i64, &str)>, f64) {
    let marks = || snapshot.marks.iter().filter_map(|mark| Some((mark, mark.values.first()?)));
    let own = marks().map(|(mark, values)| (values.self_sum.unwrap_or(0), mark.name.as_str()));
    let mut own: Vec<_> = own.collect();
    own.sort_unstable_by(|one, other| other.cmp(one));
    let (measured, calls) =
        marks().fold((0, 0), |(measured, calls), (mark, values)| (measured + values.measured, calls + mark.calls));
    (own, measured as f64 / calls as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    perfmark::disable_report();
    let line = br#"12*3456+"a text"*7+89*"another text of some length"+1234567+"x"*2"#.repeat(200);
    let text = [line.as_slice(), b"+1"].concat();
    let run = |parse: fn(&[u8]) -> u64| {
        let before = cpu_time();
        (0..60).for_each(|_| _ = black_box(parse(black_box(&text))));
        cpu_time().saturating_sub(before).as_secs_f64()
    };
    let mut ratios = [const { Vec::new() }; SETTINGS.len()];
    let mut recorded = [const { None::<Snapshot> }; SETTINGS.len()];
    let mut unmarked_ns = [0.0; SETTINGS.len()];
    for _ in 0..ROUNDS {
        for (n, (_, setting)) in SETTINGS.iter().enumerate() {
            setting.set()?;
            let unmarked = run(|text| unmarked::Parser::value(text));
            unmarked_ns[n] += unmarked * 1e9;
            run(|text| marked::Parser::value(text));
            let before = snapshot();
            ratios[n].push(run(|text| marked::Parser::value(text)) / unmarked);
            let new = snapshot().since(&before);
            recorded[n].get_or_insert_default().merge(&new);
        }
    }
    let recorded = recorded.map(Option::unwrap_or_default);
    let (truth, _) = selfs(&recorded[SETTINGS.len() - 1]);
    let mut rows = format!(
        "| | CPU time to unmarked (quartiles) | calls measured | selfs to unmarked: sum, lowest | of the {HOTTEST} \
         hottest |\n|---|---|---|---|---|\n"
    );
    for (n, (name, setting)) in SETTINGS.iter().enumerate() {
        let (own, share) = selfs(&recorded[n]);
        let is_measured = !matches!(*setting, Setting::Off | SKIPPED);
        let rest = if is_measured {
            let names = || own.iter().take(HOTTEST).map(|(_, name)| name);
            let same = truth.iter().take(HOTTEST).filter(|(_, name)| names().any(|other| other == name)).count();
            let sum = own.iter().map(|(own, _)| own).sum::<i64>() as f64 / unmarked_ns[n];
            let lowest = own.last().map_or(0.0, |(own, _)| *own as f64 / unmarked_ns[n]);
            format!("{:.3} % | {sum:.2}, {lowest:.2} | {same}", share * 100.0)
        } else {
            "- | - | -".into()
        };
        writeln!(rows, "| {name} | {} | {rest} |", table::cell(&ratios[n], 2))?;
    }
    println!("{rows}");
    if env::args().any(|argument| argument == "--record") {
        let title = "Budget: `cargo bench -p benches --bench budget -- --record`";
        let body = format!("{ROUNDS} rounds; medians.\n\n{rows}");
        println!("recorded in {}", record::write("budget", title, &body)?.display());
    }
    Ok(())
}
