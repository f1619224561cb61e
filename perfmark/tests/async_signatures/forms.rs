//! Marked async functions of many forms, in words of any edition from 2018 on.

#![allow(dead_code, unused_imports, reason = "some who include it only want to know that it is compiled")]
#![allow(clippy::uninlined_format_args, reason = "older editions")]

mod arguments;
mod bodies;
mod methods;
mod results;

pub(crate) use arguments::*;
pub(crate) use bodies::*;
pub(crate) use methods::*;
pub(crate) use results::*;
