//! A library that comes and goes: nothing in it keeps it.

#[unsafe(no_mangle)]
pub extern "C" fn perfmark_test_passer() {}
