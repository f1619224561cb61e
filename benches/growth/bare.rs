//! What `growth` is compared with: a program without perfmark, which answers as a child does.

#[path = "../src/clocks.rs"]
#[expect(dead_code, unreachable_pub, reason = "it is a file of the library, which would bring perfmark")]
mod clocks;

fn main() {
    let start = clocks::now();
    println!("{} 0 0 {}", start.as_nanos(), clocks::now().as_nanos());
}
