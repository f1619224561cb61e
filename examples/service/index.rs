//! Which words stand in which documents.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use perfmark::perfmark;

/// A document's words, and how many of all each is.
pub(crate) struct Document {
    shares: HashMap<String, f64>,
}

impl Document {
    #[perfmark]
    pub(crate) fn read(text: &str) -> Self {
        let mut shares: HashMap<String, f64> = HashMap::new();
        let mut length = 0.0;
        for word in words(text) {
            *shares.entry(word).or_default() += 1.0;
            length += 1.0;
        }
        for share in shares.values_mut() {
            *share /= length;
        }
        Self { shares }
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[derive(Default)]
pub(crate) struct Index {
    documents: HashMap<Arc<str>, Document>,
    /// The documents that have a word.
    places: BTreeMap<String, Vec<Arc<str>>>,
}

#[perfmark]
impl Index {
    /// Takes in a document, in the place of the one of that name.
    pub(crate) fn insert(&mut self, name: &str, document: Document) {
        let name: Arc<str> = name.into();
        let before = self.documents.remove(&name);
        for word in before.iter().flat_map(|document| document.shares.keys()) {
            if let Some(places) = self.places.get_mut(word) {
                places.retain(|place| *place != name);
                if places.is_empty() {
                    self.places.remove(word);
                }
            }
        }
        for word in document.shares.keys() {
            self.places.entry(word.clone()).or_default().push(name.clone());
        }
        self.documents.insert(name, document);
    }

    /// The documents with any of the words, by the share that the words have of them, rare words being worth more.
    pub(crate) fn rank(&self, query: &str) -> Vec<(f64, &str)> {
        let mut scores: HashMap<&str, f64> = HashMap::new();
        for word in words(query) {
            let places = self.places.get(&word).map_or(&[][..], Vec::as_slice);
            let worth = (1.0 + self.documents.len() as f64 / places.len() as f64).ln();
            for place in places {
                *scores.entry(place).or_default() += worth * self.documents[place].shares[&word];
            }
        }
        let mut ranked: Vec<(f64, &str)> = scores.into_iter().map(|(name, score)| (score, name)).collect();
        ranked.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.cmp(two.1)));
        ranked
    }

    /// The words that begin so, those of most documents first.
    pub(crate) fn complete(&self, prefix: &str) -> Vec<&str> {
        let prefix = prefix.to_lowercase();
        let words = self.places.range(prefix.clone()..).take_while(|(word, _)| word.starts_with(&prefix));
        let mut words: Vec<(usize, &str)> = words.map(|(word, places)| (places.len(), &**word)).collect();
        words.sort_by(|one, two| two.0.cmp(&one.0).then(one.1.cmp(two.1)));
        words.into_iter().map(|(_, word)| word).collect()
    }
}

/// The texts under these paths, by path; what is no UTF-8 is left out.
pub(crate) fn of_files(paths: &[PathBuf]) -> io::Result<Index> {
    let mut index = Index::default();
    let mut paths = paths.to_vec();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                paths.push(entry?.path());
            }
        } else if let Ok(text) = String::from_utf8(fs::read(&path)?) {
            index.insert(&path.to_string_lossy(), Document::read(&text));
        }
    }
    Ok(index)
}
