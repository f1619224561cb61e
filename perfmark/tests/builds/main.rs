//! Packages that cargo builds, for what users and their tools see of marks in other crates.

mod neighbours;
mod off;
#[path = "../program/mod.rs"]
mod program;
#[path = "../project/mod.rs"]
mod project;
mod unmarked;
