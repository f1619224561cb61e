//! Programs that show perfmark at work: see the examples of this package.
