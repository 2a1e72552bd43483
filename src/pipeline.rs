//! Pipelines: load, graph, build, run.

pub mod token;
