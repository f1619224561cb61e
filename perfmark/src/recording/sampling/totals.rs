//! All samples until now, by the path of marks and the address.

use std::collections::BTreeMap;

use crate::recording::cells::graph::Node;
use crate::recording::cells::sampled::UNKNOWN;
use crate::snapshot::tree::Tree;

/// The number of samples at each address.
pub(crate) type Addresses = BTreeMap<u64, u64>;

/// The most paths of marks, and the most pairs of a path and an address. Beyond them, samples are added to the path
/// above, and to the address 0.
const MOST_PATHS: usize = 1 << 14;
const MOST_ADDRESSES: usize = 1 << 16;

/// The samples of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// By the marks' indices. A mark that calls itself is there once.
    pub(crate) paths: Tree<u32, Addresses>,
    pub(crate) outside: Outside,
    /// The number of samples for which the kernel had no room.
    pub(crate) lost: u64,
    /// How often the kernel took no samples for a while, because there were too many.
    pub(crate) throttled: u64,
    addresses: usize,
}

/// Samples that belong to no mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    /// The program was in no call of a mark.
    pub(crate) addresses: Addresses,
    /// The number of samples whose call is unknown, because a thread had more calls with samples than notes.
    pub(crate) unknown: u64,
}

impl Totals {
    /// Adds samples that belong to a call with this path.
    ///
    /// # Safety
    ///
    /// The node is null, [`UNKNOWN`], or a node whose thread's cells exist.
    #[allow(unsafe_code, reason = "nodes are found by pointers")]
    pub(super) unsafe fn add(&mut self, samples: Addresses, node: *const Node) {
        if samples.is_empty() {
            return;
        }
        if node == UNKNOWN {
            self.outside.unknown += samples.values().sum::<u64>();
            return;
        }
        // SAFETY: this function's contract.
        let node = unsafe { node.as_ref() };
        let into = match node.map(|node| self.path(node)) {
            // Probe overhead is measured by calls of hidden marks.
            None => &mut self.outside.addresses,
            Some(None) => {
                self.outside.unknown += samples.values().sum::<u64>();
                return;
            }
            Some(Some(path)) => self.paths.value_mut(path),
        };
        for (address, samples) in samples {
            let is_known = into.contains_key(&address);
            self.addresses += usize::from(!is_known);
            let has_room = is_known || self.addresses < MOST_ADDRESSES;
            *into.entry(if has_room { address } else { 0 }).or_default() += samples;
        }
    }

    /// The index of a node's path. `None` if it contains a hidden mark, or is unknown.
    fn path(&mut self, node: &Node) -> Option<usize> {
        let mut marks = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next {
            let (mark, caller) = node.mark_and_caller()?;
            if marks.last() != Some(&mark.index()) {
                marks.push(mark.index());
            }
            next = caller;
        }
        let mut path = None;
        for mark in marks.into_iter().rev() {
            if mark == 0 {
                return None;
            }
            if self.paths.len() >= MOST_PATHS && self.paths.find(path, mark).is_none() {
                break;
            }
            path = Some(self.paths.at(path, mark).0);
        }
        path
    }
}
