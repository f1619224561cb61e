//! Prints what can be counted on this machine, how, and what prevents the rest.

fn main() {
    print!("{}", perfmark_rdpmc::support());
}
