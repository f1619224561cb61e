//! What can be counted here, how, and what is in the way.

fn main() {
    print!("{}", perfmark_rdpmc::support());
}
