//! The launcher: parse, load, build, run, report. Exit 0: done; 1: a stage failed; 2: the request is at fault.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use trackweave::launcher::progress::{Progress, tell};
use trackweave::launcher::{self, LaunchError, PipelineRequest, RunRequest};
use trackweave::pipeline::{draw, report};
use trackweave::record::RunRecord;

mod cli;

use cli::{Cli, Command, RunArgs, WorkArgs};

fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Run(args) => run(args),
        Command::Check(pipeline) => {
            plan(pipeline.into(), |plan| format!("{} stages, no errors\n", plan.n_listed()))
        }
        Command::Graph { pipeline, dot: false } => plan(pipeline.into(), draw::text),
        Command::Graph { pipeline, dot: true } => plan(pipeline.into(), draw::dot),
        Command::Stages => print(&draw::stages()),
        Command::Demo { out, overwrite, device } => {
            let (backend, adapter) = (device.backend.into(), device.adapter);
            demo(&out, RunRequest { overwrite, backend, adapter, ..RunRequest::default() })
        }
        Command::Profile { work, json } => profile(work, json),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(End::Request(errors)) => {
            errors.iter().for_each(|error| tell(format_args!("error: {error}")));
            ExitCode::from(2)
        }
        Err(End::Failed(error)) => {
            tell(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Why the program ends early.
enum End {
    /// One line an error; exit 2.
    Request(Vec<String>),
    /// Exit 1.
    Failed(String),
}

impl From<LaunchError> for End {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Request(errors) => End::Request(errors.iter().map(ToString::to_string).collect()),
            error => End::Failed(error.to_string()),
        }
    }
}

fn plan(
    request: PipelineRequest,
    say: impl Fn(&trackweave::pipeline::plan::Plan) -> String,
) -> Result<(), End> {
    print(&say(&request.plan()?))
}

fn run(args: RunArgs) -> Result<(), End> {
    let request = args.work.into_request().map_err(|error| End::Request(vec![error]))?;
    let request = RunRequest { out: args.out, overwrite: args.overwrite, ..request };
    let record = run_shown(&request)?;
    match args.json {
        true => print(&format!("{}\n", launcher::summary(&record, &request.out))),
        false => Ok(()),
    }
}

fn run_shown(request: &RunRequest) -> Result<RunRecord, End> {
    let progress = Arc::new(Progress::shown());
    let record = launcher::run(request, progress.clone())?;
    record.warnings.iter().for_each(|warning| tell(format_args!("warning: {warning}")));
    tell(format_args!("{} in {}", launcher::in_words(&record, progress.elapsed()), request.out.display()));
    Ok(record)
}

fn profile(work: WorkArgs, json: bool) -> Result<(), End> {
    let request = work.into_request().map_err(|error| End::Request(vec![error]))?;
    let (record, elapsed) = launcher::profile(&request, Arc::new(Progress::shown()))?;
    print(&match json {
        true => {
            format!("{}\n", serde_json::json!({ "seconds": elapsed.as_secs_f64(), "stages": record.stages }))
        }
        false => format!("{}\n{}\n", report::table(&record.stages), launcher::in_words(&record, elapsed)),
    })
}

fn demo(out: &Path, request: RunRequest) -> Result<(), End> {
    let request = launcher::demo::prepare(out, request, &Progress::shown())?;
    run_shown(&request)?;
    print(&launcher::demo::evaluation(&request.out)?)
}

/// Text on stdout; a reader that has seen enough is no failure.
fn print(text: &str) -> Result<(), End> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(End::Failed(format!("stdout cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}
