//! The defaults of a crate have no name, and are not those of one function.

perfmark::defaults!(cycles, name = "all of them");
perfmark::defaults!(generic);
perfmark::defaults!(every = 0);

fn main() {}
