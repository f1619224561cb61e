//! Marked async functions of all forms. Built for editions 2018 and 2021.

#![forbid(unsafe_code)]
#![deny(warnings, rust_2018_idioms)]

#[path = "../async_signatures/forms.rs"]
mod forms;
