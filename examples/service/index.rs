//! An index of the words in documents.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use perfmark::perfmark;

/// A document's words, each with its share of all words.
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
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[derive(Default)]
pub(crate) struct Index {
    documents: HashMap<Arc<str>, Document>,
    /// The documents that contain each word.
    postings: BTreeMap<String, Vec<Arc<str>>>,
}

#[perfmark]
impl Index {
    /// Adds a document, or replaces the one with this name.
    pub(crate) fn insert(&mut self, name: &str, document: Document) {
        let name: Arc<str> = name.into();
        let before = self.documents.remove(&name);
        for word in before.iter().flat_map(|document| document.shares.keys()) {
            if let Some(postings) = self.postings.get_mut(word) {
                postings.retain(|document| *document != name);
                if postings.is_empty() {
                    self.postings.remove(word);
                }
            }
        }
        for word in document.shares.keys() {
            self.postings.entry(word.clone()).or_default().push(name.clone());
        }
        self.documents.insert(name, document);
    }

    /// The documents that contain any of the words. Their scores are the words' shares, with a higher weight for rare
    /// words.
    pub(crate) fn rank(&self, query: &str) -> Vec<(f64, &str)> {
        let mut scores: HashMap<&str, f64> = HashMap::new();
        for word in words(query) {
            let postings = self.postings.get(&word).map_or(&[][..], Vec::as_slice);
            let weight = (1.0 + self.documents.len() as f64 / postings.len() as f64).ln();
            for document in postings {
                *scores.entry(document).or_default() += weight * self.documents[document].shares[&word];
            }
        }
        let mut ranked: Vec<(f64, &str)> = scores.into_iter().map(|(name, score)| (score, name)).collect();
        ranked.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.cmp(two.1)));
        ranked
    }

    /// The words with this prefix, ordered by the number of documents that contain them.
    pub(crate) fn complete(&self, prefix: &str) -> Vec<&str> {
        let prefix = prefix.to_lowercase();
        let words = self.postings.range(prefix.clone()..).take_while(|(word, _)| word.starts_with(&prefix));
        let mut words: Vec<(usize, &str)> = words.map(|(word, postings)| (postings.len(), &**word)).collect();
        words.sort_by(|one, two| two.0.cmp(&one.0).then(one.1.cmp(two.1)));
        words.into_iter().map(|(_, word)| word).collect()
    }
}

/// An index of the texts under these paths, by path. Files that are not UTF-8 are skipped.
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
