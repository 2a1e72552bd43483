//! A plan drawn as text or for graphviz.

use std::fmt::Write;

use super::plan::{Plan, PlannedStage};
use super::token::Edges;
use crate::stages::STAGES;

/// A line a stage and a line an edge, the edges that go back at the end.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for PlannedStage { row, config } in &plan.stages {
        let note = if config.is_some() { row.does } else { "(left out: passes through)" };
        writeln!(out, "{:<18}{note}", row.name).expect("writing to a string");
        if let Some(message) = row.gives.main {
            let queue = config.as_ref().map_or(1, |config| config.queue);
            writeln!(out, "  | {message} (queue {queue})").expect("writing to a string");
        }
    }
    for (from, to, message, initial) in feedback_edges(plan) {
        writeln!(out, "{from} ~> {to}: {message} ({initial} initial)").expect("writing to a string");
    }
    out
}

/// The stages of the program: name, what it does, what it takes and gives, its kernels.
pub fn stages() -> String {
    let edges = |edges: Edges| {
        let names: Vec<&str> = edges.main.into_iter().chain(edges.feedback).collect();
        if names.is_empty() { "nothing".into() } else { names.join(" and ") }
    };
    let mut out = String::new();
    for row in STAGES {
        let optional = if row.bypass.is_some() { " (may be left out)" } else { "" };
        let kernels = if row.kernels.is_empty() { "none".into() } else { row.kernels.join(" ") };
        writeln!(out, "{:<18}{}{optional}", row.name, row.does).expect("writing to a string");
        writeln!(out, "{:<18}takes {}, gives {}", "", edges(row.takes), edges(row.gives))
            .expect("writing to a string");
        writeln!(out, "{:<18}kernels: {kernels}", "").expect("writing to a string");
    }
    out
}

/// A plan for graphviz.
pub fn dot(plan: &Plan) -> String {
    let mut out = String::from("digraph trackweave {\n  rankdir=LR; node [shape=box];\n");
    for PlannedStage { row, config } in &plan.stages {
        let style = if config.is_some() { "solid" } else { "dashed" };
        writeln!(out, "  {} [style={style}];", row.name).expect("writing to a string");
    }
    for pair in plan.stages.windows(2) {
        let (from, to) = (pair[0].row, pair[1].row);
        let message = from.gives.main.unwrap_or_default();
        writeln!(out, "  {} -> {} [label=\"{message}\"];", from.name, to.name).expect("writing to a string");
    }
    for (from, to, message, initial) in feedback_edges(plan) {
        let label = format!("{message}, {initial} initial");
        writeln!(out, "  {from} -> {to} [label=\"{label}\", constraint=false];")
            .expect("writing to a string");
    }
    out + "}\n"
}

fn feedback_edges(plan: &Plan) -> Vec<(&'static str, &'static str, &'static str, u32)> {
    let mut edges = Vec::new();
    for to in &plan.stages {
        let Some(message) = to.row.takes.feedback else { continue };
        let initial = if message == "TrackTable" { 1 } else { plan.verdict_lag_frames };
        let from = plan.stages.iter().filter(|from| from.row.gives.feedback == Some(message));
        edges.extend(from.map(|from| (from.row.name, to.row.name, message, initial)));
    }
    edges
}
