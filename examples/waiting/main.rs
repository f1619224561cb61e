//! Finds a lock convoy: threads that could work in parallel, and wait for one lock.
//!
//! ```text
//! cargo run --release --example waiting            # packs each page while it holds the archive's lock
//! cargo run --release --example waiting -- before  # packs each page before it takes the lock
//! ```
//!
//! The column `off-CPU` of the report shows the convoy: a call of `pack_and_store` is off the CPU for most of its time,
//! and its callee `pack` is not.

use std::sync::{Mutex, PoisonError};
use std::thread;

use perfmark::perfmark;

const THREADS: u64 = 4;
const PAGES: u64 = 250;
const PAGE_BYTES: u64 = 16_384;

/// Packed pages of all threads.
#[derive(Default)]
struct Archive(Mutex<Vec<Vec<u8>>>);

impl Archive {
    /// Stores a page while other threads wait for the lock.
    #[perfmark(time, off_cpu)]
    fn pack_and_store(&self, page: &[u8]) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.push(pack(page));
    }

    /// Stores a packed page.
    #[perfmark(time, off_cpu)]
    fn store(&self, packed: Vec<u8>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(packed);
    }
}

/// A page of text that differs between seeds.
#[perfmark(time, off_cpu)]
fn render(seed: u64) -> Vec<u8> {
    let mut state = seed + 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b' ' + u8::try_from(state >> 60).unwrap_or(0) / 3
    };
    (0..PAGE_BYTES).map(next).collect()
}

/// Replaces each run of a byte by its length and the byte.
#[perfmark(time, off_cpu)]
fn pack(page: &[u8]) -> Vec<u8> {
    let runs = page.chunk_by(|one, other| one == other);
    runs.flat_map(|run| [u8::try_from(run.len()).unwrap_or(u8::MAX), run[0]]).collect()
}

#[perfmark(time, off_cpu)]
fn work(thread: u64, archive: &Archive, packs_before: bool) {
    for page in 0..PAGES {
        let page = render(thread * PAGES + page);
        if packs_before {
            archive.store(pack(&page));
        } else {
            archive.pack_and_store(&page);
        }
    }
}

fn main() {
    let packs_before = std::env::args().nth(1).as_deref() == Some("before");
    let archive = Archive::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let archive = &archive;
            scope.spawn(move || work(thread, archive, packs_before));
        }
    });
    let pages = archive.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{} pages, {} bytes packed", pages.len(), pages.iter().map(Vec::len).sum::<usize>());
}
