//! The files that the process's code is in, by their real paths.

use std::path::PathBuf;

/// The program's file, if it is known.
pub(crate) fn program() -> Option<PathBuf> {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(path) = linux::started_by_the_loader() {
        return Some(path.into());
    }
    let path = std::env::current_exe().ok()?;
    // Linux appends this to the path of a file that was deleted or replaced since the program started.
    let former = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).filter(|_| !path.exists());
    Some(former.map(PathBuf::from).unwrap_or(path))
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri), feature = "sampling"))]
pub(crate) use linux::mapped_file;

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    #![allow(unsafe_code, reason = "getauxval")]

    use std::fs;

    /// The program's file if the loader was started with it as an argument: `/proc/self/exe` is then the loader.
    pub(super) fn started_by_the_loader() -> Option<String> {
        // SAFETY: getauxval reads what the kernel and the loader passed to the process.
        let [loader, headers] = [libc::AT_BASE, libc::AT_PHDR].map(|of| unsafe { libc::getauxval(of) });
        // The kernel has loaded no loader for the program. That is also true of programs that need none.
        if loader == 0 { mapped_file(headers) } else { None }
    }

    /// The file that is mapped at this address.
    pub(crate) fn mapped_file(address: impl Into<u64>) -> Option<String> {
        let address = address.into();
        let maps = fs::read("/proc/self/maps").ok()?;
        let maps = String::from_utf8_lossy(&maps);
        let line = maps.lines().find(|line| {
            let number = |text| u64::from_str_radix(text, 16).ok();
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let range = range.and_then(|(from, to)| Some(number(from)?..number(to)?));
            range.is_some_and(|range| range.contains(&address))
        })?;
        let path = &line[line.find('/')?..];
        Some(path.strip_suffix(" (deleted)").unwrap_or(path).to_owned())
    }
}
