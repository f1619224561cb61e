//! A crate's defaults have no name, and are no one function's.

perfmark::defaults!(cycles, name = "all of them");
perfmark::defaults!(generic);
perfmark::defaults!(every = 0);

fn main() {}
