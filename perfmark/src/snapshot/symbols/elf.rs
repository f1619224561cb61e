//! What an ELF file says about itself and its debug information.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

use object::read::{Object as _, ObjectSection as _, ReadCache};

/// A file with code or debug information. The larger part of it is not read.
#[derive(Clone, Debug)]
pub(super) struct ElfFile {
    pub(super) path: PathBuf,
    /// In hexadecimal.
    pub(super) build_id: Option<String>,
    /// The name of the file with its debug information.
    pub(super) debug_link: Option<PathBuf>,
    /// The file with the debug information that several files share, and its build id.
    pub(super) shared: Option<(PathBuf, String)>,
    /// Whether it has debug information, from which lines are known.
    pub(super) has_lines: bool,
    /// Whether it names functions.
    pub(super) has_functions: bool,
    /// Whether it names those that it does not export, too.
    pub(super) has_all_functions: bool,
}

impl ElfFile {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let said = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        // Opening a pipe waits for its other end, and opening a device may have an effect.
        if path.metadata().is_ok_and(|about| !about.is_file()) {
            return Err(said(&"not a file"));
        }
        let file = File::open(path).map_err(|why| said(&why))?;
        let cache = ReadCache::new(file);
        let file = object::File::parse(&cache).map_err(|why| format!("{}: not an ELF file: {why}", path.display()))?;
        let has_section = |name: &str| file.section_by_name(name).is_some_and(|section| section.size() > 0);
        let path_of = |bytes: &[u8]| PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
        let shared = file.gnu_debugaltlink().ok().flatten();
        let has_all_functions = has_content(&file, ".symtab");
        Ok(Self {
            path: path.to_owned(),
            build_id: file.build_id().ok().flatten().map(hexadecimal),
            debug_link: file.gnu_debuglink().ok().flatten().map(|(name, _)| path_of(name)),
            shared: shared.map(|(name, id)| (path_of(name), hexadecimal(id))),
            // A section that was moved into another file has its size, but no content.
            has_lines: has_content(&file, ".debug_info") && has_section(".debug_line"),
            has_functions: has_all_functions || has_content(&file, ".dynsym"),
            has_all_functions,
        })
    }
}

fn has_content<'a, R: object::ReadRef<'a>>(file: &object::File<'a, R>, name: &str) -> bool {
    file.section_by_name(name).is_some_and(|section| section.file_range().is_some_and(|(_, size)| size > 0))
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}
