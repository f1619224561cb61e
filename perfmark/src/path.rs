//! Paths of functions, as `type_name` writes them: `<app::Table<u8> as app::Load>::load::{{closure}}`.

/// The signs of a path, or of a text with paths, that are not within `<…>`; the arrow of a function's type is no bracket.
pub(crate) fn outside_brackets(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut depth = 0_u32;
    text.char_indices().filter(move |&(at, sign)| {
        match sign {
            '<' => depth += 1,
            '>' if !text[..at].ends_with('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// A path as people read it: without the closures and async blocks that something is in.
#[cfg(feature = "record")]
pub(crate) fn readable(path: &str) -> String {
    // Most paths.
    if !path.contains('{') {
        return path.into();
    }
    let mut path = path.replace("::{{closure}}::", "::");
    while let Some(shorter) = path.strip_suffix("::{{closure}}") {
        path.truncate(shorter.len());
    }
    path.replace("{{closure}}", "{closure}")
}

/// The last segments of a path; `::` within `<…>` parts none.
#[cfg(feature = "record")]
pub(crate) fn end(path: &str, segments: usize) -> &str {
    let mut starts = vec![0];
    starts.extend(
        outside_brackets(path).filter(|&(at, sign)| sign == ':' && path[..at].ends_with(':')).map(|(at, _)| at + 1),
    );
    &path[starts[starts.len().saturating_sub(segments)]..]
}

/// What filters are compared with: the path, and the name where that is another one.
#[cfg(feature = "record")]
pub(crate) fn target(path: String, name: &str) -> String {
    if end(&path, 1) == name { path } else { format!("{path}::{name}") }
}

#[cfg(all(test, feature = "record"))]
mod tests {
    use super::*;

    #[test]
    fn closures_are_left_out_but_for_those_that_are_types() {
        assert_eq!(readable("app::f::{{closure}}::{{closure}}"), "app::f");
        assert_eq!(readable("app::f::{{closure}}::inner"), "app::f::inner");
        assert_eq!(
            readable("app::S<i32>::m<app::main::{{closure}}>::{{closure}}"),
            "app::S<i32>::m<app::main::{closure}>"
        );
    }

    #[test]
    fn the_end_of_a_path_is_whole() {
        assert_eq!(end("app::S<core::X>::m<fn(a::B) -> c::D>", 1), "m<fn(a::B) -> c::D>");
        assert_eq!(end("app::S<core::X>::m", 2), "S<core::X>::m");
        assert_eq!(end("<app::S<u8> as app::Tr>::e", 2), "<app::S<u8> as app::Tr>::e");
    }
}
