//! Pipelines: a file is loaded (config), checked against the stages (plan), built into a chain (graph) and run.

pub mod bypass;
pub mod config;
pub mod draw;
pub mod graph;
pub mod plan;
pub mod queue;
pub mod report;
pub mod run;
pub mod token;
