//! Random scripts, and the modes in which they are executed.

use std::sync::Arc;

use perfmark_rdpmc::script::Kind;

use crate::marks::{Exit, FORMS, Form, MARKS, MarkIndex, counters, hardware};
use crate::model::READINGS_COUNT;

/// What happens next on a thread.
#[derive(Clone, Debug)]
pub enum Step {
    Pass(u64),
    Count(Kind, u64),
    Allocate(usize),
    Move(usize, u64),
    TakeAway(Kind),
    GiveBack(Kind),
    Switch(u64, bool),
    Call(MarkIndex, Arc<[Step]>, Exit),
    /// Begins or continues the call of the future with this number.
    Poll(usize, Arc<[Step]>, Exit),
    Drop(usize),
    Repeat(u64, Arc<[Step]>),
    /// Only this mark is off from now on, or none.
    TurnOff(Option<MarkIndex>),
    Compare,
    /// Takes a snapshot, and compares from now on what was recorded since then.
    TakeBaseline,
}

/// A step of xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(limit)) >> 64) as u64
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number that is small, large, or very large.
    fn size(&mut self) -> u64 {
        let bits = self.of(&[4, 10, 20]);
        self.below(1 << bits)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The most futures that a script has at a time.
pub const FUTURES_AT_A_TIME: u64 = 4;

/// How the process records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    UserReads,
    KernelReads,
    CallGraph,
    Budget,
    /// Each reading of a counter counts one event, and each of the ticks takes one.
    ReadingsCount,
}

impl Mode {
    pub const ALL: [Self; 5] = [Self::UserReads, Self::KernelReads, Self::CallGraph, Self::Budget, Self::ReadingsCount];

    /// The variable that sets it.
    pub fn setting(self) -> (&'static str, &'static str) {
        match self {
            Self::UserReads => ("PERFMARK_READ", "user"),
            Self::KernelReads => ("PERFMARK_READ", "syscall"),
            Self::CallGraph => ("PERFMARK_CALL_GRAPH", "on"),
            Self::Budget => ("PERFMARK_BUDGET", "0.01%"),
            // Any setting that changes nothing.
            Self::ReadingsCount => (READINGS_COUNT, "1"),
        }
    }
}

pub struct Script {
    pub threads: u64,
    /// The marks that it calls, and those that it polls.
    pub calls: Vec<MarkIndex>,
    pub polled: Vec<MarkIndex>,
    /// With the number of the thread.
    pub steps: Vec<(usize, Step)>,
    mode: Mode,
    /// Whether the kernel leaves counters and threads alone, so that most calls take the fast path.
    is_calm: bool,
}

impl Script {
    pub fn new(seed: u64, mode: Mode) -> Self {
        let random = &mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let is_async = |mark: &MarkIndex| matches!(MARKS[*mark].form, Form::Async(_));
        // Many scripts have one mark, because threads whose marks have the same events have hooks of their own.
        let others = if is_async(&(seed as usize % MARKS.len())) { 1 } else { random.of(&[0, 0, 1, 2]) };
        let others: Vec<u64> = (0..others).map(|_| random.below(MARKS.len() as u64)).collect();
        // The last ones have no fast hooks.
        let usable = if mode == Mode::ReadingsCount { MARKS.len() - 5 * FORMS } else { MARKS.len() };
        let marks = others.into_iter().chain([seed]).map(|mark| mark as usize % usable);
        // Calls of several polls are not compared to that precision.
        let marks = marks.map(|mark| if mode == Mode::ReadingsCount { mark / FORMS * FORMS + mark % 3 } else { mark });
        let (polled, calls) = marks.partition(is_async);
        let mut script = Self {
            threads: 1 + random.below(3),
            calls,
            polled,
            steps: Vec::new(),
            mode,
            is_calm: seed / MARKS.len() as u64 % 2 == 1,
        };
        for _ in 0..=random.below(20) {
            let thread = random.below(script.threads) as usize;
            let step = script.step(random, 0);
            script.steps.push((thread, step));
        }
        script
    }

    fn inside(&self, random: &mut Random, depth: u32) -> Arc<[Step]> {
        let count = if depth > 5 { 0 } else { random.below(5) };
        (0..count).map(|_| self.step(random, depth + 1)).collect()
    }

    fn exit(&self, random: &mut Random) -> Exit {
        match random.below(16) {
            0 => Exit::Return,
            1 if self.mode == Mode::ReadingsCount => Exit::End,
            1 => Exit::Panic(random.below(3) as usize),
            _ => Exit::End,
        }
    }

    fn poll(&self, random: &mut Random, depth: u32) -> Step {
        let exit = if random.one_in(2) { Exit::Pending } else { self.exit(random) };
        let exit = if exit == Exit::Return { Exit::End } else { exit };
        Step::Poll(random.below(FUTURES_AT_A_TIME) as usize, self.inside(random, depth), exit)
    }

    fn step(&self, random: &mut Random, depth: u32) -> Step {
        match random.below(20) {
            5..=7 if self.is_calm => Step::Pass(1),
            // These take the slow path, which reads more often.
            5..=7 | 16 | 18..=19 if self.mode == Mode::ReadingsCount => Step::Pass(1),
            // Within a budget, imputed means would depend on which calls were drawn.
            6 if self.mode == Mode::Budget => Step::Compare,
            16 => Step::Compare,
            19 if random.one_in(4) => Step::TakeBaseline,
            // A budget measures the first calls of each mark completely.
            17 if self.mode == Mode::Budget && depth == 0 && !self.calls.is_empty() => {
                let inner = Step::Call(random.of(&self.calls), [Step::Pass(1)].into(), Exit::End);
                let outer = Step::Call(random.of(&self.calls), [inner.clone(), Step::Pass(1), inner].into(), Exit::End);
                Step::Repeat(random.below(2_000), [outer].into())
            }
            17 if depth < 3 => Step::Repeat(random.below(4), self.inside(random, depth)),
            18 if random.one_in(4) && !self.calls.is_empty() => {
                Step::TurnOff(Some(random.of(&self.calls)).filter(|_| random.one_in(2)))
            }
            0..=1 => Step::Pass(1 + random.size()),
            2 if random.one_in(2) => Step::Allocate(random.size() as usize),
            2..=4 => Step::Count(random.of(&counters()), random.size()),
            5 => Step::Move(
                random.below(7) as usize,
                random.below(1 << 48) | if random.one_in(4) { 0xffff_ffff_ff00 } else { 0 },
            ),
            6 if random.one_in(4) => Step::TakeAway(random.of(&hardware())),
            6 => Step::GiveBack(random.of(&hardware())),
            7 => Step::Switch(1 + random.below(1 << 20), random.one_in(2)),
            8 if random.one_in(4) => Step::Drop(random.below(FUTURES_AT_A_TIME) as usize),
            8..=11 if !self.polled.is_empty() => self.poll(random, depth),
            _ if self.calls.is_empty() => self.poll(random, depth),
            _ => Step::Call(random.of(&self.calls), self.inside(random, depth), self.exit(random)),
        }
    }
}
