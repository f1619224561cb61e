//! A library that is opened and closed again and again: nothing in it keeps it loaded.

/// Something that the linker keeps.
#[unsafe(no_mangle)]
pub extern "C" fn perfmark_test_transient() {}
