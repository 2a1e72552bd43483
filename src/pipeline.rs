//! Pipelines: load, graph, build, run.
