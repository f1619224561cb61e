//! The sum and the difference of samples.

use std::collections::BTreeMap;

use super::arithmetic::Combine;
use super::samples::{Module, SampledPath, Samples};

impl Samples {
    /// The same samples with other numbers.
    pub(super) fn combine(&self, other: &Self, indices: &[Option<usize>], combine: Combine) -> Self {
        let mut modules = self.modules.clone();
        let in_modules: Vec<usize> = other.modules.iter().map(|module| index_in(&mut modules, module)).collect();
        let mut paths: BTreeMap<Vec<usize>, BTreeMap<(usize, u64), u64>> = BTreeMap::new();
        for path in &self.paths {
            let addresses = path.addresses.iter().map(|one| ((one.module, one.address), one.samples));
            paths.entry(path.marks.clone()).or_default().extend(addresses);
        }
        for path in &other.paths {
            let marks: Option<Vec<usize>> =
                path.marks.iter().map(|&mark| indices.get(mark).copied().flatten()).collect();
            let Some(marks) = marks else { continue };
            let known = paths.entry(marks).or_default();
            for one in &path.addresses {
                let samples = known.entry((in_modules[one.module], one.address)).or_default();
                *samples = (combine.counts)(*samples, one.samples);
            }
        }
        let count = |number: fn(&Self) -> u64| (combine.counts)(number(self), number(other));
        Self {
            lost: count(|samples| samples.lost),
            throttled: count(|samples| samples.throttled),
            unattributed: count(|samples| samples.unattributed),
            threads_without: self.threads_without.max(other.threads_without),
            paths: paths.into_iter().filter_map(|(marks, addresses)| SampledPath::new(marks, addresses)).collect(),
            modules,
            ..self.clone()
        }
    }
}

fn index_in(modules: &mut Vec<Module>, module: &Module) -> usize {
    modules.iter().position(|known| known == module).unwrap_or_else(|| {
        modules.push(module.clone());
        modules.len() - 1
    })
}
