//! Paths of functions, as `type_name` writes them: `<app::Table<u8> as app::Load>::load::{{closure}}`.

/// A path as people read it: without the closures and async blocks that something is in.
pub(crate) fn readable(path: &str) -> String {
    let mut path = path.replace("::{{closure}}::", "::");
    while let Some(shorter) = path.strip_suffix("::{{closure}}") {
        path.truncate(shorter.len());
    }
    path.replace("{{closure}}", "{closure}")
}

/// The last segments of a path; `::` within `<…>` parts none.
pub(crate) fn end(path: &str, segments: usize) -> &str {
    let mut depth = 0_i32;
    let mut starts = vec![0];
    for (at, sign) in path.char_indices() {
        match sign {
            '<' => depth += 1,
            '>' if !path[..at].ends_with('-') => depth -= 1,
            ':' if depth == 0 && path[..at].ends_with(':') => starts.push(at + 1),
            _ => {}
        }
    }
    &path[starts[starts.len().saturating_sub(segments)]..]
}

/// What filters are compared with: the path, and the name where that is another one.
pub(crate) fn target(path: String, name: &str) -> String {
    if end(&path, 1) == name { path } else { format!("{path}::{name}") }
}

#[cfg(test)]
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
