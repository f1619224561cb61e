//! Paths of functions, as `type_name` writes them: `<app::Table<u8> as app::Load>::load::{{closure}}`. In symbols,
//! closures have numbers: `{closure#0}`.

/// The characters of a text with paths that are outside of all `<…>`. The arrow of a function's type is not a bracket.
pub(crate) fn outside_brackets(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut depth = 0_u32;
    text.char_indices().filter(move |&(at, c)| {
        match c {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// A path for people: without the names of enclosing closures and async blocks.
#[cfg(feature = "record")]
pub(crate) fn readable(path: &str) -> String {
    // Most paths have none.
    if !path.contains('{') {
        return path.into();
    }
    let mut path = without_numbers(path).replace("::{{closure}}::", "::");
    while let Some(shorter) = path.strip_suffix("::{{closure}}") {
        path.truncate(shorter.len());
    }
    path.replace("{{closure}}", "{closure}")
}

/// The path with closures as `type_name` writes them.
#[cfg(feature = "record")]
fn without_numbers(path: &str) -> String {
    const NUMBERED: &str = "{closure#";
    let mut parts = path.split(NUMBERED);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}').filter(|(number, _)| number.bytes().all(|digit| digit.is_ascii_digit())) {
            Some((_, rest)) => plain.extend(["{{closure}}", rest]),
            None => plain.extend([NUMBERED, part]),
        }
    }
    plain
}

/// The path of a symbol as `type_name` writes it: `app::sum<u8>` for `app::sum::<u8>`, which is Rust's v0 mangling.
#[cfg(feature = "symbols")]
pub(super) fn of_symbol(symbol: &str) -> String {
    let mut parts = symbol.split("::<");
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // `app::io::<impl app::Table<u8>>::load`: a module and a type.
        path.push_str(if part.starts_with("impl ") { "::<" } else { "<" });
        path.push_str(part);
    }
    path
}

/// The last segments of a path; `::` within `<…>` does not separate segments.
#[cfg(feature = "record")]
pub(crate) fn end(path: &str, segments: usize) -> &str {
    let starts = starts(path);
    &path[starts[starts.len().saturating_sub(segments)]..]
}

/// Where the segments of a path begin.
#[cfg(feature = "record")]
pub(crate) fn starts(path: &str) -> Vec<usize> {
    let separators = outside_brackets(path).filter(|&(at, c)| c == ':' && path[..at].ends_with(':'));
    [0].into_iter().chain(separators.map(|(at, _)| at + 1)).collect()
}

/// A path without generic parameters, and with the type in place of its implementation: `app::Table::load` for
/// `<app::Table<u8> as app::Load>::load`.
#[cfg(feature = "record")]
pub(crate) fn bare(path: &str) -> String {
    let mut bare = String::new();
    let starts = starts(path);
    let ends = starts[1..].iter().map(|start| start - "::".len()).chain([path.len()]);
    for (&start, end) in starts.iter().zip(ends) {
        // Of `:::`, segments overlap.
        let segment = path.get(start..end).unwrap_or_default();
        if !bare.is_empty() {
            bare.push_str("::");
        }
        // The last segment is a function, or the name of a region, which may begin with `<`.
        match implementing(segment).filter(|_| end < path.len()) {
            // `app::io::<impl app::Table<u8>>::load`: the module of the implementation is not the type's.
            Some(of_type) => {
                bare.clear();
                let outside = outside_brackets(of_type).map(|(_, c)| c);
                bare.extend(outside.filter(|&c| c != '>'));
                // Tuples, functions and the like have no shorter name, nor have slices of a type in a module.
                let is_simple = |c: char| c.is_alphanumeric() || "_:[]{}#".contains(c);
                if !bare.chars().all(is_simple) || bare.starts_with('[') && bare.contains(':') {
                    bare = brief(segment);
                }
            }
            None => match segment.find('<') {
                Some(at @ 1..) => bare.push_str(&segment[..at]),
                _ => bare.push_str(segment),
            },
        }
    }
    bare
}

/// The type in a segment such as `<app::Table<u8> as app::Load>` or `<impl app::Load for app::Table<u8>>`.
#[cfg(feature = "record")]
fn implementing(segment: &str) -> Option<&str> {
    let inner = segment.strip_prefix('<')?.strip_suffix('>')?;
    let inner = match (inner.strip_prefix("impl "), last_outside(inner, " for "), last_outside(inner, " as ")) {
        (Some(_), Some(at), _) => &inner[at + " for ".len()..],
        (Some(of_type), None, _) => of_type,
        (None, _, Some(at)) => &inner[..at],
        (None, _, None) => inner,
    };
    Some(inner.trim_start_matches('&').trim_start_matches("mut ").trim_start_matches("dyn "))
}

/// The path with the trait in place of the type that implements it: `app::Load::load` for
/// `<app::Table<u8> as app::Load>::load`. Symbols of v0 name default methods by the type.
#[cfg(feature = "record")]
pub(super) fn of_trait(path: &str) -> Option<String> {
    const AS: &str = " as ";
    let (first, method) = path.split_at(*starts(path).get(1)?);
    let inner = first.strip_suffix(">::")?.strip_prefix('<')?;
    let at = last_outside(inner, AS)?;
    Some(bare(&format!("{}::{method}", &inner[at + AS.len()..])))
}

/// Where the word is for the last time outside of all brackets.
#[cfg(feature = "record")]
fn last_outside(text: &str, word: &str) -> Option<usize> {
    outside_brackets(text).map(|(at, _)| at).filter(|&at| text[at..].starts_with(word)).last()
}

/// A path without the modules of the types in it: `<Table<u8> as Load>::load` for `<app::Table<u8> as
/// app::Load>::load`.
#[cfg(feature = "record")]
pub(crate) fn brief(path: &str) -> String {
    let (mut brief, mut depth) = (String::with_capacity(path.len()), 0_u32);
    for c in path.chars() {
        match c {
            '<' => depth += 1,
            '>' if !brief.ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        let module = brief.strip_suffix(':').filter(|_| c == ':' && depth > 0);
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        match module.map(|before| before.trim_end_matches(is_name).len()) {
            Some(start) if start + 1 < brief.len() => brief.truncate(start),
            _ => brief.push(c),
        }
    }
    brief
}

/// The text that filters are compared with: the path, with the name appended if it differs.
#[cfg(feature = "record")]
pub(crate) fn target(path: String, name: &str) -> String {
    if end(&path, 1) == name { path } else { format!("{path}::{name}") }
}

#[cfg(all(test, feature = "record"))]
mod tests {
    use super::*;

    #[test]
    fn closures_are_left_out_except_as_type_arguments() {
        assert_eq!(readable("app::f::{{closure}}::{{closure}}"), "app::f");
        assert_eq!(readable("app::f::{{closure}}::inner"), "app::f::inner");
        assert_eq!(readable("app::f::{closure#0}::{closure#12}"), "app::f");
        assert_eq!(readable("app::f::{closure#"), "app::f::{closure#");
        assert_eq!(
            readable("app::S<i32>::m<app::main::{{closure}}>::{{closure}}"),
            "app::S<i32>::m<app::main::{closure}>"
        );
    }

    #[test]
    fn the_end_of_a_path_has_complete_segments() {
        assert_eq!(end("app::S<core::X>::m<fn(a::B) -> c::D>", 1), "m<fn(a::B) -> c::D>");
        assert_eq!(end("app::S<core::X>::m", 2), "S<core::X>::m");
        assert_eq!(end("<app::S<u8> as app::Tr>::e", 2), "<app::S<u8> as app::Tr>::e");
    }

    #[test]
    fn a_bare_path_is_of_type_and_function() {
        for (path, expected) in [
            ("app::f", "app::f"),
            ("app::Tree<u8, fn(u8) -> a::B>::insert", "app::Tree::insert"),
            ("app::sum<u32>", "app::sum"),
            ("<app::Table<u8> as app::Load<a::B>>::load", "app::Table::load"),
            ("<app::Table<<u8 as a::B>::C> as app::Load>::load::inner", "app::Table::load::inner"),
            ("app::io::<impl app::Table<u8>>::load", "app::Table::load"),
            ("app::io::<impl app::Load for app::Table<u8>>::load", "app::Table::load"),
            ("<&mut app::Table as app::Load>::load", "app::Table::load"),
            ("<u8 as app::Load>::load", "u8::load"),
            ("<[T] as app::Load>::load", "[T]::load"),
            ("<[app::T] as app::Load>::load", "<[T] as Load>::load"),
            ("<(u8, a::B) as app::Load>::load", "<(u8, B) as Load>::load"),
            ("<() as app::Load>::load", "<() as Load>::load"),
            ("<fn(u8) -> a::B as app::Load>::load", "<fn(u8) -> B as Load>::load"),
            ("<dyn app::Store + Send as app::Load>::load", "<dyn Store + Send as Load>::load"),
            ("", ""),
            ("app::<b>", "app::<b>"),
        ] {
            assert_eq!(bare(path), expected, "{path}");
        }
    }

    #[cfg(feature = "symbols")]
    #[test]
    fn generic_parameters_of_symbols_are_no_segments() {
        for (symbol, expected) in [
            ("app::f", "app::f"),
            ("app::sum::<u8>", "app::sum<u8>"),
            ("app::sum::<app::Id<u8>>::{closure#0}", "app::sum<app::Id<u8>>::{closure#0}"),
            ("<app::Table<u8>>::load::<u8>", "<app::Table<u8>>::load<u8>"),
            ("app::io::<impl app::Table<u8>>::load", "app::io::<impl app::Table<u8>>::load"),
            ("", ""),
        ] {
            assert_eq!(of_symbol(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn a_method_of_a_trait_is_named_by_the_trait() {
        for (path, expected) in [
            ("<app::Table<<u8 as a::B>::C> as app::Load<a::B>>::load", Some("app::Load::load")),
            ("<app::Table<<u8 as a::B>::C>>::load", None),
            ("app::Load::load", None),
            ("", None),
        ] {
            assert_eq!(of_trait(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_brief_path_keeps_types_without_their_modules() {
        for (path, expected) in [
            ("app::Tree<u8, core::fmt::X>::insert", "app::Tree<u8, X>::insert"),
            ("<app::Table<a::B> as app::Load>::load", "<Table<B> as Load>::load"),
            ("<<a::T as a::I>::Item as a::F>::f", "<<T as I>::Item as F>::f"),
            ("app::m<app::main::{closure}>", "app::m<{closure}>"),
            (":::<>>::", ":::<>>::"),
        ] {
            assert_eq!(brief(path), expected, "{path}");
        }
    }
}
