//! What `linked` is compared with: the same child of a program without its marks.

fn main() {
    // Without a parent there is nobody to answer.
    _ = benches::process::answer();
}
