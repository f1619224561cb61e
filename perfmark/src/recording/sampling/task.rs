//! The threads of this process, as the kernel lists them.

use std::collections::BTreeSet;
use std::fs;
#[cfg(target_os = "linux")]
use std::os::linux::fs::MetadataExt as _;
use std::{io, mem};

use crate::platform::signals::background;
use crate::platform::thread_id::{thread_id, thread_name};

const TASKS: &str = "/proc/self/task";

/// The number of threads. 0 if it is unknown.
fn count() -> u64 {
    // The directory has a link of its own, one in its parent, and one in each thread's directory.
    #[cfg(target_os = "linux")]
    return fs::metadata(TASKS).map_or(0, |about| about.st_nlink().saturating_sub(2));
    #[cfg(not(target_os = "linux"))]
    0
}

/// The name of a thread of this process.
pub(super) fn name(thread: u32) -> Option<String> {
    thread_name(thread).filter(|name| !name.is_empty())
}

/// The name of a thread with `*` for each number: so all workers of a pool have the same one.
pub(super) fn group(name: &str) -> String {
    let mut group = String::new();
    for c in name.chars() {
        match c {
            '0'..='9' if group.ends_with('*') => {}
            '0'..='9' => group.push('*'),
            c => group.push(c),
        }
    }
    group
}

/// The numbers of all threads.
fn all() -> io::Result<BTreeSet<u32>> {
    let entries = fs::read_dir(TASKS)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// What is known of the process's threads.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    count: u64,
    round: u32,
    /// Those that are not sampled: perfmark's own, and those without a ring.
    pub(super) left_out: BTreeSet<u32>,
    /// Whether the kernel does not list them.
    pub(super) is_blind: bool,
}

impl Tasks {
    /// Threads that are not known yet. `has_ended` is whether a thread may have ended since the last time.
    /// Removes those that have left from `refused`.
    pub(super) fn new_threads(
        &mut self,
        known: impl Fn() -> BTreeSet<u32>,
        has_ended: bool,
        refused: &mut BTreeSet<u32>,
    ) -> Vec<u32> {
        /// A thread may have ended when another one began, which the count does not show.
        const ROUNDS: u32 = 8;
        let now = count();
        self.round = (self.round + 1) % ROUNDS;
        if mem::replace(&mut self.count, now) == now && !has_ended && self.round != 0 {
            return Vec::new();
        }
        let all = match all() {
            // Numbers of another namespace are of no use.
            Ok(all) if all.contains(&thread_id()) => all,
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                // There may be no descriptor at the moment.
                self.count = 0;
                return Vec::new();
            }
            _ => {
                self.is_blind = true;
                return Vec::new();
            }
        };
        // After all were listed: a thread of perfmark's own that is listed has begun to start.
        let Some(own) = background::own_threads() else {
            self.count = 0;
            return Vec::new();
        };
        self.left_out.retain(|thread| all.contains(thread));
        // Threads that are not listed now are known, unless they have left.
        let known = known();
        refused.retain(|thread| all.contains(thread) || known.contains(thread));
        let others = all.into_iter().filter(|thread| !known.contains(thread) && !self.left_out.contains(thread));
        let (own, fresh): (Vec<u32>, Vec<u32>) = others.partition(|thread| own.contains(thread));
        self.left_out.extend(own);
        fresh
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn all_threads_are_listed_and_counted() {
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    barrier.wait();
                    barrier.wait();
                });
            }
            barrier.wait();
            let all = all().expect("they are listed");
            assert!(all.len() >= 4 && count() >= 4, "{all:?}");
            barrier.wait();
        });
    }

    #[test]
    fn threads_whose_names_differ_by_numbers_are_a_group() {
        for (name, expected) in [
            ("worker-12", "worker-*"),
            ("worker-1-2", "worker-*-*"),
            ("rayon3", "rayon*"),
            ("3d", "*d"),
            ("io1work", "io*work"),
            ("x", "x"),
        ] {
            assert_eq!(group(name), expected);
        }
    }
}
