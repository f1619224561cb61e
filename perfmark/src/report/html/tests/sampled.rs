//! Samples of generated programs: where the calls of each node of the call graph were, in stacks of several functions.

use std::collections::BTreeMap;
use std::path::Path;

use super::tree::{Random, rounded};
use crate::snapshot::samples::PathKey;
use crate::snapshot::{Frame, Mark, Module, Samples, Snapshot};

type Address = (usize, u64);
type Stack = Vec<Address>;

/// The files with code: the program, and a library without debug information.
const APP: usize = 0;
const LIBC: usize = 1;

/// Lines of source, repeated in each file.
const TEXT: [&str; 15] = [
    "    /// Returns what was found, in the order of its positions.",
    "    pub fn find(&mut self, key: &[u8]) -> Option<Found> {",
    "        let mut at = self.root.as_ref()?;",
    "        for (depth, byte) in key.iter().enumerate() {",
    "            let block = self.blocks[at.index as usize..].iter().find(|block| block.first <= *byte)?;",
    "            if block.is_leaf {",
    "                return Some(Found { depth, position: block.decode(byte) });",
    "            }",
    "            self.visited.push(block.index);",
    "            at = block;",
    "        }",
    "        let name = String::from_utf8_lossy(key).into_owned();",
    "        self.missing.insert(name, at.index);",
    "        None",
    "    }",
];

/// The addresses of the program's instructions, and their functions.
#[derive(Default)]
struct Program {
    addresses: BTreeMap<Vec<Frame>, u64>,
}

impl Program {
    fn at(&mut self, frames: &[Frame]) -> Address {
        let next = 0x1_1f40 + 20 * self.addresses.len() as u64;
        (APP, *self.addresses.entry(frames.to_vec()).or_insert(next))
    }
}

/// Adds samples of two events to a snapshot with a call graph. Its source files are in a directory.
pub(super) fn with_samples(mut snapshot: Snapshot, root: &Path) -> Snapshot {
    let mut program = Program::default();
    let first = samples(&mut program, &snapshot, root, 4_000.0, 1);
    let second = samples(&mut program, &snapshot, root, 300.0, 2);
    let named: BTreeMap<Address, Vec<Frame>> =
        program.addresses.into_iter().map(|(frames, address)| ((APP, address), frames)).collect();
    let path = |name: &str| root.join(name).to_str().expect("UTF-8").to_owned();
    let modules = vec![
        Module { path: path("app"), build_id: None },
        Module { path: "/usr/lib/libc.so.6".into(), build_id: None },
    ];
    for (at, paths) in [first, second].into_iter().enumerate() {
        let is_first = at == 0;
        let mut samples = Samples {
            event: if is_first { "cpu-clock" } else { "cache-misses" }.to_owned(),
            frequency: is_first.then_some(99),
            period: (!is_first).then_some(10_007),
            lost: if is_first { 0 } else { 40 },
            throttled: if is_first { 0 } else { 3 },
            unattributed: 2,
            stack_bytes: 512,
            modules: modules.clone(),
            ..Samples::default()
        };
        samples.set_paths(paths);
        samples.set_names(&named);
        snapshot.samples.push(samples);
    }
    snapshot
}

fn samples(
    program: &mut Program,
    snapshot: &Snapshot,
    root: &Path,
    all: f64,
    seed: u64,
) -> BTreeMap<PathKey, BTreeMap<Stack, u64>> {
    let own = |node: usize| snapshot.call_graph[node].values.last().and_then(|values| values.self_sum).unwrap_or(0);
    let sum: i64 = (0..snapshot.call_graph.len()).map(own).sum();
    let mut random = Random::new(seed);
    let mut paths: BTreeMap<PathKey, BTreeMap<Stack, u64>> = BTreeMap::new();
    for node in 0..snapshot.call_graph.len() {
        let mut marks = Vec::new();
        let mut at = Some(node);
        while let Some(node) = at {
            let node = &snapshot.call_graph[node];
            if !marks.contains(&node.mark) {
                marks.insert(0, node.mark);
            }
            at = node.parent;
        }
        let mark = &snapshot.marks[snapshot.call_graph[node].mark];
        let share = own(node) as f64 / sum.max(1) as f64 * all * (0.5 + random.part());
        let stacks = paths.entry(marks.into()).or_default();
        for (stack, part) in stacks_of(program, mark, root) {
            let count = (share * part * (0.5 + random.part())).round();
            *stacks.entry(stack).or_default() += rounded(count);
        }
    }
    let frame = |function: &str, file: &str, line| frame(function, root.join(file).to_str().expect("UTF-8"), line);
    let main = program.at(&[frame("app::main", "src/main.rs", 40)]);
    let load = program.at(&[frame("app::config::load", "src/config.rs", 31)]);
    let read = program.at(&[frame("app::files::Reader::fill", "src/files.rs", 77)]);
    let count = |part: f64| rounded(all * part);
    let in_main = [(vec![load, main], count(0.02)), (vec![main], count(0.01)), (vec![(LIBC, 0x9_1000)], count(0.02))];
    let in_readers = [(vec![read, load, main], count(0.07)), (vec![(LIBC, 0x9_8b20), read, load, main], count(0.03))];
    for (thread, stacks) in [(None, in_main.to_vec()), (Some("reader-*"), in_readers.to_vec())] {
        paths.insert(PathKey { marks: Vec::new(), thread: thread.map(str::to_owned) }, stacks.into_iter().collect());
    }
    paths
}

/// The stacks of a mark, with their parts of its samples.
fn stacks_of(program: &mut Program, mark: &Mark, root: &Path) -> Vec<(Stack, f64)> {
    let file = root.join(&mark.file).to_str().expect("UTF-8").to_owned();
    let own = |line: u32| frame(&mark.path, &file, mark.line + line);
    let find = frame(
        "<core::slice::iter::Iter<app::Block> as core::iter::Iterator>::find::<app::find::{{closure}}>",
        "/rustc/1f2/library/core/src/slice/iter/macros.rs",
        328,
    );
    let decode = frame("app::block::Block::decode", root.join("src/block.rs").to_str().expect("UTF-8"), 112);
    let grow = frame("alloc::raw_vec::RawVec<T,A>::grow_one", "/rustc/1f2/library/alloc/src/raw_vec.rs", 336);
    let insert = |line| {
        frame(
            "hashbrown::map::HashMap<K,V,S,A>::insert",
            "/home/user/.cargo/registry/src/index-1949cf8c6b5b557f/hashbrown-0.16.0/src/map.rs",
            line,
        )
    };
    let [to_owned, entry, grown] = [own(11), own(12), own(8)].map(|frame| program.at(&[frame]));
    let decoded = program.at(&[decode, own(6)]);
    let [inserted, reserved] = [insert(1_755), insert(1_740)].map(|frame| program.at(&[frame]));
    let memmove = (LIBC, 0x9_8b40);
    let main = program.at(&[frame("app::main", root.join("src/main.rs").to_str().expect("UTF-8"), 40)]);
    vec![
        (vec![program.at(&[find, own(4)]), main], 0.30),
        (vec![program.at(&[own(4)]), main], 0.08),
        (vec![program.at(&[own(3)]), main], 0.05),
        (vec![decoded, main], 0.11),
        (vec![program.at(&[grow]), grown, main], 0.04),
        (vec![(LIBC, 0x9_2f10), program.at(&[insert(1_800)]), grown, main], 0.02),
        (vec![program.at(&[own(2)]), main], 0.01),
        (vec![memmove, to_owned, main], 0.14),
        (vec![(LIBC, 0x9_2f00), to_owned, main], 0.06),
        (vec![inserted, entry, main], 0.09),
        (vec![memmove, reserved, entry, main], 0.05),
        // These do not reach the marked function.
        (vec![memmove], 0.03),
        (vec![program.at(&[frame("__memchr_avx2", "memchr.S", 80)])], 0.02),
    ]
}

fn frame(function: &str, file: &str, line: u32) -> Frame {
    Frame { function: function.to_owned(), file: Some(file.to_owned()), line: Some(line) }
}

/// Writes the source files of the marks, and then the program.
pub(super) fn write_sources(snapshot: &Snapshot, root: &Path, more: &[&str]) {
    for mark in &snapshot.marks {
        let path = root.join(&mark.file);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        let lines = snapshot.marks.iter().filter(|other| other.file == mark.file).map(|mark| mark.line).max();
        let line = |number: usize| TEXT.iter().chain(more).nth(number % (TEXT.len() + more.len())).copied();
        let offset = TEXT.len() + more.len() - mark.line as usize % (TEXT.len() + more.len());
        let text: Vec<&str> = (0..lines.unwrap_or(0) as usize + 30).filter_map(|at| line(at + offset)).collect();
        std::fs::write(path, text.join("\n")).expect("written");
    }
    std::fs::write(root.join("app"), "").expect("written");
}
