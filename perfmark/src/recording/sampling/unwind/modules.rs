//! The files that the process's code is in, also those that were unloaded again.

use crate::compact::index_or_push;
use crate::platform::modules::{self, LoadedModule};
use crate::snapshot::Module;

/// A module, by its index, and an address in it.
pub(crate) type Address = (usize, u64);

/// The index of the module for code that is in no file.
const NO_FILE: usize = 0;

/// All modules in which samples can be.
pub(crate) struct Modules {
    now: Loaded,
    /// Those at the moment before.
    before: Loaded,
    /// The number of modules of `now` that were there at all times between both moments.
    stayed: usize,
    /// Whether modules were loaded between both moments that are unloaded again, or were loaded twice.
    has_unseen: bool,
    known: Vec<Module>,
}

/// The modules that are loaded at a moment.
#[derive(Clone, Debug, Default)]
struct Loaded {
    /// Each with its index in `known`.
    modules: Vec<(LoadedModule, usize)>,
    /// How many modules were loaded and unloaded until then. `None` before the first moment. In a statically linked
    /// program, musl counts none.
    changes: Option<[u64; 2]>,
}

impl Default for Modules {
    fn default() -> Self {
        let [now, before] = [(); 2].map(|()| Loaded::default());
        Self { now, before, stayed: 0, has_unseen: false, known: vec![Module::default()] }
    }
}

/// The module with this code address, and its index.
fn find(modules: &[(LoadedModule, usize)], address: u64) -> Option<&(LoadedModule, usize)> {
    modules.iter().find(|(module, _)| module.code.iter().any(|code| code.contains(&address)))
}

impl Modules {
    /// Finds out which modules are loaded at the moment of `read`, whose value it returns, and whether they are others
    /// than at the moment before.
    pub(crate) fn update<T>(&mut self, read: impl Fn() -> T) -> (T, bool) {
        /// A program that loads modules all the time is not waited for.
        const MOST_TIMES: u32 = 8;
        let was_changed = self.now.changes != self.before.changes;
        if was_changed {
            self.before = self.now.clone();
        }
        let mut times = 0;
        let value = loop {
            let changes = modules::changes();
            if self.now.changes != Some(changes) {
                let modules = modules::loaded().into_iter().map(|module| self.with_index(module)).collect();
                self.now = Loaded { modules, changes: Some(changes) };
            }
            let value = read();
            times += 1;
            if modules::changes() == changes || times == MOST_TIMES {
                break value;
            }
        };
        let adds = |loaded: &Loaded| loaded.changes.map_or(0, |[adds, _]| adds);
        let added = usize::try_from(adds(&self.now) - adds(&self.before)).unwrap_or(usize::MAX);
        // The loader appends modules to its list.
        self.stayed = self.now.modules.len().saturating_sub(added);
        let is_new = |module: &&(LoadedModule, usize)| !self.before.modules.contains(module);
        self.has_unseen = added > self.now.modules[self.stayed..].iter().filter(is_new).count();
        (value, was_changed || self.now.changes != self.before.changes)
    }

    fn with_index(&mut self, module: LoadedModule) -> (LoadedModule, usize) {
        let described = Module { path: module.path.clone(), build_id: module.build_id.clone() };
        let index = index_or_push(&mut self.known, |known| *known == described, || described.clone());
        (module, index)
    }

    /// The module with this code address.
    pub(crate) fn with_code(&self, address: u64) -> Option<&LoadedModule> {
        self.find(address).map(|(module, _)| module)
    }

    #[cfg(test)]
    pub(crate) fn loaded(&self) -> impl Iterator<Item = &LoadedModule> {
        self.now.modules.iter().map(|(module, _)| module)
    }

    /// The module that had the code at a time between both moments. `None` if it may have been another one.
    fn find(&self, address: u64) -> Option<&(LoadedModule, usize)> {
        let (stayed, new) = self.now.modules.split_at(self.stayed);
        find(stayed, address).or_else(|| match (find(&self.before.modules, address), find(new, address)) {
            _ if self.has_unseen => None,
            (Some(_), Some(_)) => None,
            (one, other) => one.or(other),
        })
    }

    /// The module and the address in it. Code that is in no file keeps its address, and so does code that may have been
    /// in several.
    pub(crate) fn resolve(&self, address: u64) -> Address {
        self.find(address).map_or((NO_FILE, address), |(module, index)| (*index, address.wrapping_sub(module.base)))
    }

    /// All modules, by their indices.
    pub(crate) fn known(&self) -> &[Module] {
        &self.known
    }
}
