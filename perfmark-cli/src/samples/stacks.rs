//! The stacks of samples: the marks around, and the functions at the address.

use std::collections::BTreeMap;
use std::path::Path;

use perfmark::text::sanitize;
use perfmark::{Frame, Module, Samples, Snapshot};

/// The label of samples in no mark.
pub(super) const OUTSIDE: &str = "outside marks";

/// Samples at one address, in calls with one path of marks.
pub(super) struct Stack<'a> {
    /// The names of the marks, the outermost first.
    pub(super) marks: Vec<&'a str>,
    pub(super) module: usize,
    pub(super) address: u64,
    /// The functions at the address, the innermost first. Those around the marked function's own code are left out,
    /// and so is that function itself: it is the last mark.
    pub(super) frames: Vec<&'a Frame>,
    /// The marked function's own frame, with its line.
    pub(super) own: Option<&'a Frame>,
    /// All functions at the address, the innermost first.
    pub(super) all_frames: Vec<&'a Frame>,
    pub(super) samples: u64,
    names: Names<'a>,
}

/// What names frames without a function.
#[derive(Clone, Copy)]
struct Names<'a> {
    modules: &'a [Module],
}

/// All stacks, those with the same marks together. `names` are those of the marks.
pub(super) fn of<'a>(snapshot: &'a Snapshot, names: &'a [String], samples: &'a Samples) -> Vec<Stack<'a>> {
    let frames_at: BTreeMap<(usize, u64), &[usize]> =
        samples.named.iter().map(|one| ((one.module, one.address), one.frames.as_slice())).collect();
    let mut stacks = Vec::new();
    for path in &samples.paths {
        // A damaged report may have marks that it lacks.
        let marks = path.marks.iter().filter_map(|&mark| names.get(mark));
        let innermost = path.marks.last().and_then(|&mark| snapshot.marks.get(mark));
        for one in &path.addresses {
            let frames = frames_at.get(&(one.module, one.address)).copied().unwrap_or_default();
            let all_frames: Vec<&Frame> = frames.iter().filter_map(|&at| samples.frames.get(at)).collect();
            let own = all_frames.iter().rposition(|frame| innermost.is_some_and(|mark| mark.path == frame.function));
            stacks.push(Stack {
                marks: marks.clone().map(String::as_str).collect(),
                module: one.module,
                address: one.address,
                own: own.map(|own| all_frames[own]),
                frames: all_frames[..own.unwrap_or(all_frames.len())].to_vec(),
                all_frames,
                samples: one.samples,
                names: Names { modules: &samples.modules },
            });
        }
    }
    stacks
}

impl Stack<'_> {
    /// The innermost mark.
    pub(super) fn mark(&self) -> &str {
        self.marks.last().copied().unwrap_or(OUTSIDE)
    }

    /// The name of each frame, the outermost first: marks and then functions. Code without a name is `libc.so.6+0x1c0`.
    pub(super) fn labels(&self, function: impl Fn(&Frame) -> String) -> Vec<String> {
        let mut labels: Vec<String> = self.marks.iter().map(|name| sanitize(name)).collect();
        if self.marks.is_empty() {
            labels.push(OUTSIDE.into());
        }
        labels.extend(self.frames.iter().rev().map(|frame| function(frame)));
        if self.all_frames.is_empty() {
            let module = self.names.modules.get(self.module).map(|module| Path::new(&module.path));
            let name = module.and_then(Path::file_name).map_or("?".into(), |name| name.to_string_lossy());
            labels.push(format!("{}+{:#x}", sanitize(&name), self.address));
        }
        labels
    }
}
