//! What a mark costs, measured in one run: see the benchmarks of this package.
