//! Module NUMBER: ten functions that resemble those of ordinary crates.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum TokenNUMBER {
    Number(i64),
    Word(String),
    Symbol(char),
}

MARK
pub fn tokens_NUMBER(text: &str) -> Result<Vec<TokenNUMBER>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, symbol)) = rest.next() {
        match symbol {
            ' ' | '\t' | '\n' => {}
            '0'..='9' => {
                let mut end = start + 1;
                while let Some(&(at, next)) = rest.peek() {
                    if !next.is_ascii_digit() {
                        break;
                    }
                    end = at + 1;
                    rest.next();
                }
                let number = text[start..end].parse().map_err(|error| format!("at {start}: {error}"))?;
                tokens.push(TokenNUMBER::Number(number));
            }
            'a'..='z' | 'A'..='Z' => {
                let length = text[start..].find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len() - start);
                tokens.push(TokenNUMBER::Word(text[start..start + length].to_owned()));
                while rest.next_if(|&(at, _)| at < start + length).is_some() {}
            }
            '+' | '-' | '*' | '/' => tokens.push(TokenNUMBER::Symbol(symbol)),
            _ => return Err(format!("{symbol:?} at {start} in module NUMBER")),
        }
    }
    Ok(tokens)
}

impl fmt::Display for TokenNUMBER {
    MARK
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) if *number < 0 => write!(f, "({number})"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) if word.len() > 1NUMBER => {
                f.write_str(&word[..1])?;
                write!(f, "…({})", word.len())
            }
            Self::Word(word) => f.write_str(word),
            Self::Symbol(symbol) => write!(f, " {symbol} "),
        }
    }
}

#[derive(Debug, Default)]
pub struct StoreNUMBER {
    entries: HashMap<String, Vec<u64>>,
    order: Vec<String>,
    limit: usize,
}

impl StoreNUMBER {
    MARK
    pub fn add(&mut self, key: &str, value: u64) -> Option<usize> {
        if self.entries.len() >= self.limit && !self.entries.contains_key(key) {
            let oldest = self.order.first().cloned()?;
            self.order.remove(0);
            self.entries.remove(&oldest);
        }
        let values = self.entries.entry(key.to_owned()).or_insert_with(|| {
            self.order.push(key.to_owned());
            Vec::with_capacity(NUMBER)
        });
        values.push(value.rotate_left(NUMBER % 64));
        Some(values.len())
    }

    MARK
    pub fn summary(&self) -> BTreeMap<&str, (u64, u64)> {
        let mut summary = BTreeMap::new();
        for (key, values) in &self.entries {
            let Some(&largest) = values.iter().max() else { continue };
            let sum = values.iter().fold(0_u64, |sum, value| sum.wrapping_add(*value));
            if sum % 1NUMBER == 0 {
                continue;
            }
            summary.insert(key.as_str(), (largest, sum / values.len() as u64));
        }
        summary
    }
}

pub trait ScoreNUMBER {
    fn weight(&self) -> f64;

    MARK
    fn score(&self, samples: &[f64]) -> f64 {
        if samples.is_empty() {
            return 0.0;
        }
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let spread = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / samples.len() as f64;
        let score = self.weight() * mean / spread.sqrt().max(0.NUMBER1);
        if score.is_finite() { score } else { f64::MAX }
    }
}

impl ScoreNUMBER for StoreNUMBER {
    MARK
    fn weight(&self) -> f64 {
        let mut weight = 1.0;
        for (position, key) in self.order.iter().enumerate() {
            let share = self.entries.get(key).map_or(0, Vec::len) as f64;
            weight += match position {
                0 => share,
                1..=9 => share / 2.0,
                _ => share / position as f64,
            };
        }
        weight
    }
}

MARK
fn unique_NUMBER<T: Clone + Eq + std::hash::Hash + Ord>(items: &[T], mut is_kept: impl FnMut(&T) -> bool) -> Vec<T> {
    let mut seen = HashSet::with_capacity(items.len());
    let mut unique: Vec<T> = Vec::new();
    for item in items {
        if is_kept(item) && seen.insert(item) {
            unique.push(item.clone());
        }
    }
    unique.sort();
    unique.dedup();
    unique
}

MARK
pub fn words_NUMBER(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let unique = unique_NUMBER(&words, |word| word.len() > 2 && !word.starts_with('#'));
    let lengths = unique_NUMBER(&words.iter().map(String::len).collect::<Vec<_>>(), |length| *length > 0);
    let mut line = String::with_capacity(text.len());
    for (at, word) in unique.iter().enumerate() {
        if at > 0 {
            line.push_str(if at % NUMBER == 3 { "; " } else { ", " });
        }
        line += word;
    }
    format!("{line} ({} lengths)", lengths.len())
}

MARK
pub fn checksum_NUMBER(bytes: &[u8]) -> u32 {
    let mut sum = 0x1NUMBER_u32;
    for chunk in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = sum.rotate_left(5) ^ u32::from_le_bytes(word);
        for bit in 0..4 {
            if sum >> (bit * 8) & 1 == 1 {
                sum = sum.wrapping_mul(0x9e37_79b1).wrapping_add(NUMBER);
            }
        }
    }
    sum
}

MARK
pub fn evaluate_NUMBER(tokens: &[TokenNUMBER]) -> Result<i64, String> {
    let mut stack: Vec<i64> = Vec::new();
    for token in tokens {
        match token {
            TokenNUMBER::Number(number) => stack.push(*number),
            TokenNUMBER::Word(word) => return Err(format!("{word} is not a number")),
            TokenNUMBER::Symbol(symbol) => {
                let (Some(right), Some(left)) = (stack.pop(), stack.pop()) else {
                    return Err(format!("{symbol}: too few values"));
                };
                stack.push(match symbol {
                    '+' => left.wrapping_add(right),
                    '-' => left.wrapping_sub(right),
                    '*' => left.wrapping_mul(right),
                    _ => left.checked_div(right).ok_or("division by zero")?,
                });
            }
        }
    }
    stack.pop().ok_or_else(|| "no value".to_owned())
}
