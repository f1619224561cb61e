//! Parses each line of the files as a regular expression and, escaped, as a literal. Translates and prints both, and
//! parses the output again.

use std::{env, fs};

use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::Extractor;

#[derive(Default)]
struct Job {
    parsed: u64,
    refused: u64,
    literals: u64,
    digest: u64,
}

impl Job {
    fn parse(&mut self, pattern: &str) -> Option<Hir> {
        self.parsed += 1;
        match regex_syntax::parse(pattern) {
            Ok(hir) => Some(hir),
            Err(why) => {
                self.refused += 1;
                self.digest(&why.to_string());
                None
            }
        }
    }

    fn line(&mut self, line: &str) {
        let literal = self.parse(&regex_syntax::escape(line)).expect("an escaped line is a literal");
        assert_eq!(literal.properties().minimum_len(), Some(line.len()));
        for hir in [Some(literal), self.parse(line)].into_iter().flatten() {
            let printed = hir.to_string();
            self.digest(&printed);
            assert!(self.parse(&printed).is_some(), "{printed}");
            self.literals += Extractor::new().extract(&hir).len().unwrap_or(0) as u64;
        }
    }

    fn digest(&mut self, text: &str) {
        self.digest = text.bytes().fold(self.digest, |digest, byte| digest.rotate_left(5) ^ u64::from(byte));
    }
}

#[perfmark::perfmark(time, name = "the job")]
fn main() {
    let mut job = Job::default();
    for file in env::args().skip(1) {
        fs::read_to_string(file).expect("text").lines().for_each(|line| job.line(line));
    }
    let Job { parsed, refused, literals, digest } = job;
    println!("{refused} lines are not regular expressions; {literals} literals; digest {digest:x}");
    println!("calls {parsed} regex_syntax::parser::parse");
}
