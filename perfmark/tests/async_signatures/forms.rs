//! Marked async functions of many forms, in syntax of any edition from 2018 on.

#![allow(dead_code, unused_imports, reason = "some tests only check that it compiles")]
#![allow(clippy::uninlined_format_args, reason = "older editions")]
#![allow(clippy::unused_async, reason = "all forms of bodies")]

mod arguments;
mod bodies;
mod methods;
mod results;

pub(crate) use arguments::*;
pub(crate) use bodies::*;
pub(crate) use methods::*;
pub(crate) use results::*;
