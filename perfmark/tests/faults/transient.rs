//! A library that is opened and closed again and again: nothing in it keeps it loaded.

#[unsafe(no_mangle)]
pub extern "C" fn perfmark_test_transient() {}
