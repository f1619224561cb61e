//! The program with which `linked` is compared: the same child process without marks.

fn main() {
    // A program that is not a child has no parent to answer.
    _ = benches::process::answer();
}
