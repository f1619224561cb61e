//! Programs that use perfmark. See the examples of this package.
