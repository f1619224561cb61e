//! The functions and lines at addresses of one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use addr2line::Loader;
use object::read::{Object as _, ObjectSymbol as _, ReadCache};

use super::search::Found;
use crate::snapshot::Frame;
use crate::snapshot::path::of_symbol;
use crate::snapshot::samples::MAX_INLINED;

/// The frames of each address that has a name, the innermost first.
pub(super) fn frames(file: &Found, addresses: &BTreeSet<u64>) -> Result<BTreeMap<u64, Vec<Frame>>, String> {
    let mut named = if file.has_lines { lines(file, addresses)? } else { BTreeMap::new() };
    // Of `debug = "line-tables-only"`, functions have no paths. Those of symbols do.
    let is_brief = |frames: &Vec<Frame>| frames.last().is_none_or(|frame| !frame.function.contains("::"));
    let rest: Vec<u64> = addresses.iter().copied().filter(|at| named.get(at).is_none_or(is_brief)).collect();
    if !rest.is_empty() {
        for (address, function) in functions(&file.path, &rest) {
            let frames: &mut Vec<Frame> = named.entry(address).or_default();
            match frames.last_mut() {
                Some(frame) => frame.function = function,
                None => frames.push(Frame { function, ..Frame::default() }),
            }
        }
    }
    Ok(named)
}

/// The frames of debug information.
fn lines(file: &Found, addresses: &BTreeSet<u64>) -> Result<BTreeMap<u64, Vec<Frame>>, String> {
    let said =
        |why: &dyn std::fmt::Display| format!("{}: the debug information is damaged: {why}", file.path.display());
    let mut named = BTreeMap::new();
    // The loader maps the file.
    let loader = Loader::new_with_sup(&file.path, file.shared.as_ref()).map_err(|why| said(&why))?;
    for &address in addresses {
        let Ok(mut found) = loader.find_frames(address) else { continue };
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = found.next() {
            let function = frame.function.as_ref().and_then(|name| Some(of_symbol(&name.demangle().ok()?)));
            let location = frame.location.as_ref();
            frames.push(Frame {
                function: function.unwrap_or_default(),
                file: location.and_then(|at| at.file).map(str::to_owned),
                line: location.and_then(|at| at.line).filter(|&line| line > 0),
            });
            if frames.len() >= MAX_INLINED {
                break;
            }
        }
        if frames.iter().any(|frame| !frame.function.is_empty()) {
            named.insert(address, frames);
        } else if let [Frame { file, line: Some(line), .. }] = &frames[..] {
            // Assembly has lines, and its functions are in the symbol table.
            named.insert(address, vec![Frame { file: file.clone(), line: Some(*line), ..Frame::default() }]);
        }
    }
    Ok(named)
}

/// The functions of the file's symbol table that contain these addresses, which are in order.
fn functions(path: &Path, addresses: &[u64]) -> Vec<(u64, String)> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let cache = ReadCache::new(file);
    let Ok(file) = object::File::parse(&cache) else { return Vec::new() };
    let mut best: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let is_code = matches!(symbol.kind(), object::SymbolKind::Text | object::SymbolKind::Unknown);
        if !is_code || symbol.is_undefined() {
            continue;
        }
        let (start, size) = (symbol.address(), symbol.size());
        // A symbol of assembly often has no size: it names its address only.
        let end = start.saturating_add(size.max(1));
        let first = addresses.partition_point(|&address| address < start);
        for &address in addresses[first..].iter().take_while(|&&address| address < end) {
            let Ok(name) = symbol.name() else { break };
            let is_better = best.get(&address).is_none_or(|(known, _)| start > *known);
            // In files for Arm and RISC-V, `$x` marks where code begins, and is no function.
            let is_mapping_symbol = size == 0 && name.starts_with('$');
            if is_better && !name.is_empty() && !is_mapping_symbol {
                best.insert(address, (start, demangled(name)));
            }
        }
    }
    best.into_iter().map(|(address, (_, name))| (address, name)).collect()
}

fn demangled(name: &str) -> String {
    of_symbol(&addr2line::demangle_auto(name.into(), None))
}
