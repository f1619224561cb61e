//! A machine's files in a temporary directory.

use std::fs;
use std::path::{Path, PathBuf};

/// Removed on drop.
pub(crate) struct Files(pub(crate) PathBuf);

impl Files {
    /// `name` is that of one test.
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("perfmark-{name}-{}", std::process::id())))
    }

    /// Writes a file, and creates its directories.
    pub(crate) fn write(&self, file: impl AsRef<Path>, text: &str) {
        let file = self.0.join(file);
        fs::create_dir_all(file.parent().expect("below the root")).expect("writable");
        fs::write(file, text).expect("writable");
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
