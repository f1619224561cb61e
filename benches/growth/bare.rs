//! The program with which `growth` is compared. It does not link perfmark, and answers as a child process does.

#[path = "../src/clocks.rs"]
#[expect(dead_code, unreachable_pub, reason = "the library, to which the file belongs, would link perfmark")]
mod clocks;

fn main() {
    let start = clocks::now();
    println!("{} 0 0 {}", start.as_nanos(), clocks::now().as_nanos());
}
