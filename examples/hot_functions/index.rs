//! An index of words and their locations.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::io::{self, ErrorKind};
use std::panic::resume_unwind;
use std::thread::{self, Builder};

use perfmark::perfmark;

use crate::corpus::{File, explain, read_text};
use crate::tokens::tokenize;

/// A line of a file. `file` counts from 0 in the corpus, `line` from 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) file: u32,
    pub(crate) line: u32,
}

#[derive(Default)]
pub(crate) struct Index {
    /// The number of indexed text files.
    pub(crate) texts: usize,
    pub(crate) lines: usize,
    pub(crate) errors: Vec<String>,
    /// The locations of each term, ascending and without duplicates. Its hashes have no random seed, so that each run
    /// executes the same instructions.
    locations: HashMap<String, Vec<Location>, BuildHasherDefault<DefaultHasher>>,
    /// The number of terms in each file, or 0 if it is not text.
    lengths: Vec<usize>,
    /// The number of terms in all files.
    length: usize,
}

impl Index {
    /// Builds the index on two threads, each of which indexes about half of the bytes.
    ///
    /// The second one begins when the first one has ended. Threads at the same time would get other memory from the
    /// allocator in each run, and execute a few more or fewer instructions.
    pub(crate) fn build(files: &[File]) -> io::Result<Self> {
        let numbered: Vec<(u32, &File)> = (0..).zip(files).collect();
        let (left, right) = numbered.split_at(middle(files));
        let of = |half| {
            thread::scope(|scope| {
                let thread = Builder::new().spawn_scoped(scope, || Self::of(half))?;
                Ok::<_, io::Error>(thread.join().unwrap_or_else(|e| resume_unwind(e)))
            })
        };
        Ok(of(left)?.merge(of(right)?))
    }

    fn of(files: &[(u32, &File)]) -> Self {
        let mut index = Self::default();
        for &(number, file) in files {
            let length = match read_text(&file.path) {
                Ok(Some(text)) => index.add_file(number, &text),
                Ok(None) => 0,
                Err(error) => {
                    index.add_error(file, &error);
                    0
                }
            };
            index.lengths.push(length);
        }
        index
    }

    /// Adds a file line by line. Returns the number of its terms.
    #[perfmark(cycles, instructions)]
    fn add_file(&mut self, file: u32, text: &str) -> usize {
        let mut length = 0;
        let mut terms = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            tokenize(text, &mut terms);
            length += terms.len();
            self.lines += 1;
            for term in terms.drain(..) {
                let location = Location { file, line };
                match self.locations.get_mut(term.as_ref()) {
                    Some(locations) if locations.last() == Some(&location) => {}
                    Some(locations) => locations.push(location),
                    None => {
                        self.locations.insert(term.into_owned(), vec![location]);
                    }
                }
            }
        }
        self.texts += 1;
        self.length += length;
        length
    }

    /// Adds the index of the files that follow those of this index.
    #[perfmark(cycles, instructions)]
    fn merge(mut self, next: Self) -> Self {
        for (term, locations) in next.locations {
            self.locations.entry(term).or_default().extend(locations);
        }
        self.lengths.extend(next.lengths);
        self.errors.extend(next.errors);
        self.length += next.length;
        self.texts += next.texts;
        self.lines += next.lines;
        self
    }

    fn add_error(&mut self, file: &File, error: &io::Error) {
        // A file that was removed after its folder was listed is not an error.
        if error.kind() != ErrorKind::NotFound {
            self.errors.push(explain(&file.path, error));
        }
    }

    pub(crate) fn terms(&self) -> usize {
        self.locations.len()
    }

    pub(crate) fn locations(&self, term: &str) -> Option<&[Location]> {
        self.locations.get(term).map(Vec::as_slice)
    }

    /// A file's length as a multiple of the mean.
    pub(crate) fn relative_length(&self, file: u32) -> f64 {
        let mean = self.length as f64 / self.texts as f64;
        self.lengths[file as usize] as f64 / mean
    }
}

/// The number of files at the start that make up half of the bytes.
fn middle(files: &[File]) -> usize {
    let half = files.iter().map(|file| file.size).sum::<u64>() / 2;
    let mut sum = 0;
    let before_half = |file: &&File| {
        sum += file.size;
        sum <= half
    };
    files.iter().take_while(before_half).count()
}
