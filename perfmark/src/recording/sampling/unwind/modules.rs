//! The files that the process's code is in, also those that were unloaded again.

use crate::platform::modules::{self, LoadedModule};
use crate::snapshot::Module;

/// A module, by its index, and an address in it.
pub(crate) type Address = (usize, u64);

/// The index of the module for code that is in no file.
const NO_FILE: usize = 0;

/// All modules in which samples can be.
#[derive(Debug)]
pub(crate) struct Modules {
    /// Those that are loaded, each with its index in `known`.
    loaded: Vec<(LoadedModule, usize)>,
    known: Vec<Module>,
    changes: Option<[u64; 2]>,
}

impl Default for Modules {
    fn default() -> Self {
        Self { loaded: Vec::new(), known: vec![Module::default()], changes: None }
    }
}

impl Modules {
    /// Looks for modules that were loaded or unloaded since the last time. Returns whether there were some.
    pub(crate) fn update(&mut self) -> bool {
        let changes = Some(modules::changes());
        let is_changed = self.changes != changes;
        if is_changed {
            self.changes = changes;
            self.loaded = modules::loaded().into_iter().map(|module| self.with_index(module)).collect();
        }
        is_changed
    }

    fn with_index(&mut self, module: LoadedModule) -> (LoadedModule, usize) {
        let described = Module { path: module.path.clone(), build_id: module.build_id.clone() };
        let known = self.known.iter().position(|known| *known == described);
        let index = known.unwrap_or_else(|| {
            self.known.push(described);
            self.known.len() - 1
        });
        (module, index)
    }

    /// The loaded module with this code address.
    pub(crate) fn with_code(&self, address: u64) -> Option<&LoadedModule> {
        self.find(address).map(|(module, _)| module)
    }

    #[cfg(test)]
    pub(crate) fn loaded(&self) -> impl Iterator<Item = &LoadedModule> {
        self.loaded.iter().map(|(module, _)| module)
    }

    fn find(&self, address: u64) -> Option<&(LoadedModule, usize)> {
        self.loaded.iter().find(|(module, _)| module.code.iter().any(|code| code.contains(&address)))
    }

    /// The module and the address in it. Code that is in no file keeps its address.
    pub(crate) fn resolve(&self, address: u64) -> Address {
        self.find(address).map_or((NO_FILE, address), |(module, index)| (*index, address.wrapping_sub(module.base)))
    }

    /// All modules, by their indices.
    pub(crate) fn known(&self) -> &[Module] {
        &self.known
    }
}
