//! Reports for the tests, and directories for them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use perfmark::{
    Bucket, Event, Format, Frame, Location, Mark, Module, Read, Report, SampledPath, SampledStack, Snapshot, Unit,
    Values,
};

use super::program;
pub(super) use super::program::Folder;

/// A report of 100 calls of each function, each call with the given number of instructions.
pub(super) fn report(instructions: &[(&str, u64)]) -> Snapshot {
    let marks = instructions.iter().map(|&(name, each)| mark(name, vec![values("instructions", &[each; 100])]));
    snapshot(marks.collect())
}

pub(super) fn snapshot(marks: Vec<Mark>) -> Snapshot {
    let event = |name: &str, unit, read| {
        let mut event = Event::default();
        (event.name, event.unit, event.read) = (name.into(), unit, read);
        event
    };
    let mut snapshot = Snapshot::default();
    snapshot.program = "app".into();
    snapshot.pid = 7;
    snapshot.threads = 1;
    snapshot.wall_ns = 1_000_000;
    snapshot.events = vec![event("instructions", Unit::Count, Read::User), event("time", Unit::Ns, Read::Ticks)];
    snapshot.marks = marks;
    snapshot
}

pub(super) fn mark(name: &str, values: Vec<Values>) -> Mark {
    let calls = values.first().map_or(0, |values| values.measured);
    let mut mark = Mark::default();
    mark.name = name.into();
    mark.path = format!("app::{name}");
    mark.file = "src/main.rs".into();
    mark.line = 3;
    mark.on = true;
    mark.calls = calls;
    mark.every = 1;
    mark.values = values;
    mark
}

pub(super) fn values(event: &str, calls: &[u64]) -> Values {
    let mut sorted = calls.to_vec();
    sorted.sort_unstable();
    let mut buckets: Vec<Bucket> = Vec::new();
    for &value in &sorted {
        match buckets.last_mut().filter(|bucket| bucket.low == value) {
            Some(bucket) => bucket.calls += 1,
            None => buckets.push((value, value, 1).into()),
        }
    }
    let (measured, sum) = (calls.len() as u64, calls.iter().sum::<u64>().cast_signed());
    let at =
        |per_mille: usize| sorted.get((sorted.len() * per_mille / 1000).min(sorted.len().saturating_sub(1))).copied();
    let mut values = Values::default();
    values.event = event.into();
    values.measured = measured;
    values.weight = measured;
    values.sum = sum;
    values.total = sum;
    values.self_sum = Some(sum);
    values.min = sorted.first().copied();
    values.max = sorted.last().copied();
    values.mean = (measured > 0).then(|| sum as f64 / measured as f64);
    values.p50 = at(500);
    values.p90 = at(900);
    values.p99 = at(990);
    values.p999 = at(999);
    values.buckets = buckets;
    values
}

pub(super) fn frame(function: &str, file: &str, line: u32) -> Frame {
    let mut frame = Frame::default();
    (frame.function, frame.file, frame.line) = (function.into(), Some(file.into()), Some(line));
    frame
}

pub(super) fn location(module: usize, address: u64, frames: &[usize]) -> Location {
    let mut location = Location::default();
    (location.module, location.address, location.frames) = (module, address, frames.to_vec());
    location
}

pub(super) fn module(path: &str, build_id: Option<&str>) -> Module {
    let mut module = Module::default();
    (module.path, module.build_id) = (path.into(), build_id.map(str::to_owned));
    module
}

/// Samples in a path of marks. Each stack has its locations and a number of samples.
pub(super) fn path(marks: &[usize], stacks: &[(&[usize], u64)]) -> SampledPath {
    let mut path = SampledPath::default();
    path.marks = marks.to_vec();
    for (locations, samples) in stacks {
        let mut stack = SampledStack::default();
        (stack.locations, stack.samples) = (locations.to_vec(), *samples);
        path.stacks.push(stack);
        path.samples += samples;
    }
    path
}

impl Folder {
    /// A file, and the folders around it.
    pub(super) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").into()
    }

    pub(super) fn executable(&self, name: &str, text: &str) -> String {
        let path = self.file(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its owner may");
        path
    }

    pub(super) fn report(&self, name: &str, snapshot: &Snapshot) -> String {
        self.file(name, json(snapshot))
    }
}

pub(super) fn json(snapshot: &Snapshot) -> String {
    Report::new(snapshot).format(Format::Json).to_string()
}

pub(super) fn table(snapshot: &Snapshot) -> String {
    Report::new(snapshot).to_string()
}

/// The path and the content of a real report of this program.
pub(super) fn real(folder: &Folder, name: &str) -> (String, Snapshot) {
    let path = folder.0.join(name);
    let path = path.to_str().expect("UTF-8");
    let output = program::scenario("calls", &[("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", path)]);
    program::assert_code(&output, 0);
    (path.into(), serde_json::from_slice(&fs::read(path).expect("left")).expect("a report"))
}
