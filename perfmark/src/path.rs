//! Paths of functions, as `type_name` writes them: `<app::Table<u8> as app::Load>::load::{{closure}}`.

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
    let mut path = path.replace("::{{closure}}::", "::");
    while let Some(shorter) = path.strip_suffix("::{{closure}}") {
        path.truncate(shorter.len());
    }
    path.replace("{{closure}}", "{closure}")
}

/// The last segments of a path; `::` within `<…>` does not separate segments.
#[cfg(feature = "record")]
pub(crate) fn end(path: &str, segments: usize) -> &str {
    let mut starts = vec![0];
    starts
        .extend(outside_brackets(path).filter(|&(at, c)| c == ':' && path[..at].ends_with(':')).map(|(at, _)| at + 1));
    &path[starts[starts.len().saturating_sub(segments)]..]
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
}
