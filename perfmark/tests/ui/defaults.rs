//! The defaults of a crate have no name, and are not those of one function.

perfmark::defaults!(cycles, name = "all of them");
perfmark::defaults!(generic);
perfmark::defaults!(every = 0);
perfmark::defaults!(budget = "2");
perfmark::defaults!(budget = 2);
perfmark::defaults!(budget = "101%");
perfmark::defaults!(budget = "2%", every = 61);
perfmark::defaults!(bugdet = "2%");

#[perfmark::perfmark(budget = "2%")]
fn one_function() {}

fn main() {}
