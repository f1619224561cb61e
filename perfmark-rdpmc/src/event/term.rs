//! The terms of `pmu/term,term=value/`.

use std::fmt;

/// One term of an event of a named PMU: a field of its format, an event that it lists, or a keyword of the grammar such
/// as `config1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    pub(super) name: String,
    pub(super) value: Option<Value>,
}

/// The value of a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Value {
    /// Written in decimal, hexadecimal (`0x1f`) or octal (`0o17`). As in perf, a leading 0 alone does not mean octal.
    Number(u64),
    /// A name or a path; in single quotes if it contains a comma.
    Text(String),
}

/// Terms whose values are always text, even if they look like a number.
const TEXTS: &[&str] = &["name", "path", "func"];

impl Term {
    /// The field, event or keyword.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value, if it has one.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// Parses a list of terms. Fails with what is wrong with it.
    pub(super) fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut terms: Vec<Self> = Vec::new();
        if text.is_empty() {
            return Ok(terms);
        }
        for part in split_outside_quotes(text)? {
            let term = Self::parse(part)?;
            if terms.iter().any(|other| other.name == term.name) {
                return Err(format!("the term {} is given twice", term.name));
            }
            terms.push(term);
        }
        Ok(terms)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if name.is_empty() {
            return Err("a term is missing: two adjacent commas or slashes, or = without a name before it".into());
        }
        if value.is_none()
            && let Some(config) = raw(name)
        {
            return Ok(Self { name: "config".into(), value: Some(Value::Number(config)) });
        }
        if let Some(wrong) = name.chars().find(|&c| !is_name_char(c)) {
            return Err(format!("{wrong:?} cannot be part of a term's name, in {text:?}"));
        }
        if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            return Err(format!(
                "a term must begin with a letter, and {text:?} does not; write config={text} for a number"
            ));
        }
        let value = value.map(|value| Value::parse(name, value)).transpose()?;
        Ok(Self { name: name.into(), value })
    }
}

impl Value {
    fn parse(name: &str, text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(format!("nothing follows {name}="));
        }
        if let Some(inner) = text.strip_prefix('\'') {
            let inner = inner.strip_suffix('\'').filter(|inner| !inner.contains('\''));
            let inner = inner.filter(|inner| !inner.is_empty() && !inner.contains(char::is_control));
            return inner
                .map(|inner| Self::Text(inner.into()))
                .ok_or_else(|| format!("{name}={text} does not end with a closing '"));
        }
        if let Some(wrong) = text.chars().find(|&c| c == '\'' || c.is_control()) {
            return Err(format!("{wrong:?} cannot be part of a value, in {name}={text:?}"));
        }
        if !TEXTS.contains(&name) && text.starts_with(|first: char| first.is_ascii_digit()) {
            return number(text).map(Self::Number);
        }
        Ok(Self::Text(text.into()))
    }
}

/// Parses a number as perf writes it, or octal as Rust does.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let (digits, radix) = match text.get(..2) {
        Some("0x" | "0X") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        _ => (text, 10),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(format!("{text:?} is not a number; write 42, 0x2a or 0o52"));
    }
    u64::from_str_radix(digits, radix).map_err(|_| format!("{text} has more than 64 bits"))
}

/// `r1c2`, `r0x1c2`, `0x1c2`: a number for config.
fn raw(text: &str) -> Option<u64> {
    match raw_digits(text) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.starts_with("0x").then(|| number(text).ok()).flatten(),
    }
}

/// The hexadecimal digits of `r1c2` or `r0x1c2`. A word such as `ref` that only happens to consist of hexadecimal
/// letters has none; that number is `r0xef`.
pub(super) fn raw_digits(text: &str) -> Option<&str> {
    let number = text.strip_prefix('r').filter(|number| number.bytes().any(|digit| digit.is_ascii_digit()))?;
    let digits = number.strip_prefix("0x").unwrap_or(number);
    (!digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(digits)
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

fn split_outside_quotes(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut quoted) = (Vec::new(), 0, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'\'' => quoted = !quoted,
            b',' if !quoted => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    if quoted {
        return Err(format!("a ' is not closed, in {text:?}"));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.value {
            None => Ok(()),
            Some(Value::Number(number)) => write!(f, "={number:#x}"),
            Some(Value::Text(text)) => {
                // Text that would parse as a number or a list is quoted.
                let is_plain = !text.contains(',')
                    && (TEXTS.contains(&self.name.as_str()) || !text.starts_with(|c: char| c.is_ascii_digit()));
                if is_plain { write!(f, "={text}") } else { write!(f, "='{text}'") }
            }
        }
    }
}
