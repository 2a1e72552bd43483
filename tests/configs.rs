//! Pipeline files: those that come with the program check, wrong ones say all that is wrong.
//!
//! After an intended change: INSTA_UPDATE=always cargo test --test configs

use std::fmt::Write;
use std::fs;

use trackweave::kernels::KERNELS;
use trackweave::launcher::PipelineRequest;
use trackweave::pipeline::config::{BUILT_IN, PipelineConfig};
use trackweave::pipeline::draw;
use trackweave::pipeline::plan::Plan;
use trackweave::stages::STAGES;

fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The plan, or a line an error.
fn plan(text: &str) -> Result<Plan, String> {
    let lines = |errors: Vec<String>| errors.iter().fold(String::new(), |text, error| text + error + "\n");
    let config = PipelineConfig::parse("p.toml", text)
        .map_err(|errors| lines(errors.iter().map(ToString::to_string).collect()))?;
    Plan::new(&config).map_err(|errors| lines(errors.iter().map(ToString::to_string).collect()))
}

#[test]
fn every_pipeline_of_the_program_checks() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let mut built_in = BUILT_IN.map(|(name, _)| name);
    built_in.sort();
    assert_eq!(names, built_in);
    for name in names {
        let request = PipelineRequest { name, ..PipelineRequest::default() };
        request.plan().unwrap_or_else(|error| panic!("{}: {error}", request.name));
    }
}

#[test]
fn the_table_of_stages_is_a_walk() {
    for pair in STAGES.windows(2) {
        assert_eq!(pair[0].gives.main, pair[1].takes.main, "{} to {}", pair[0].name, pair[1].name);
    }
    for row in STAGES {
        let Some(bypass) = row.bypass else { continue };
        assert_eq!((bypass().takes(), bypass().gives()), (row.takes, row.gives), "bypass of {}", row.name);
    }
    for kernel in KERNELS {
        assert!(
            STAGES.iter().any(|row| row.kernels.contains(&kernel.name)),
            "no stage names {}",
            kernel.name
        );
    }
    snapshot("stages", &draw::stages());
}

#[test]
fn a_pipeline_is_drawn() {
    let plan = PipelineRequest { name: "extract".into(), ..PipelineRequest::default() }.plan().unwrap();
    snapshot("graph_extract", &format!("{}\n{}", draw::text(&plan), draw::dot(&plan)));
}

/// A pipeline that lists stages by name.
fn listing(names: &[&str]) -> String {
    names.iter().map(|name| format!("[[stage]]\nname = \"{name}\"\n")).collect()
}

#[test]
fn wrong_pipelines_say_all_that_is_wrong() {
    let smallest = ["frame_decode", "gray_upload", "keyframe_gate", "export"];
    plan(&listing(&smallest)).unwrap();
    let and = |text: &str| listing(&smallest) + text;
    let cases = [
        ("nothing", String::new()),
        ("no TOML", "[[stage]\nname = 3".into()),
        ("a key too many", and("colour = \"red\"\n").replace("[[stage]]", "\n[[stage]]")),
        ("keys at the top", format!("lag = 3\nverdict_lag_frames = -1\n{}", listing(&smallest))),
        ("a value of the wrong type", and("queue = \"two\"\n")),
        ("no name", and("[[stage]]\nqueue = 2\n")),
        ("a misspelt stage", listing(&["frame_decode", "gray_uplod", "keyframe_gate", "export"])),
        (
            "a stage nobody knows",
            listing(&["frame_decode", "gray_upload", "keyframe_gate", "bake", "export"]),
        ),
        (
            "a stage twice",
            listing(&["frame_decode", "gray_upload", "keyframe_gate", "gray_upload", "export"]),
        ),
        ("out of order", listing(&["frame_decode", "keyframe_gate", "gray_upload", "export"])),
        ("wired to the wrong type", listing(&["frame_decode", "keyframe_gate", "export"])),
        ("no beginning and no end", listing(&["gray_upload", "keyframe_gate"])),
        ("no room", and("queue = 0\n")),
        (
            "too much room",
            format!("verdict_lag_frames = 4000000000\n{}", and("queue = 9000000000000000000\n")),
        ),
        ("no lag", format!("verdict_lag_frames = 0\n{}", listing(&smallest))),
        (
            "tracking without joining",
            listing(&["frame_decode", "gray_upload", "klt_push", "keyframe_gate", "export"]),
        ),
        (
            "bad options of several stages",
            and("options.tracks = 3\n")
                .replace("\"gray_upload\"\n", "\"gray_upload\"\noptions.analysis_size_px = 2\n")
                .replace("\"keyframe_gate\"\n", "\"keyframe_gate\"\noptions.min_track = 2\n"),
        ),
        ("several at once", {
            let names = ["frame_decode", "sift_extract", "keyframe_gate", "paint", "sift_extract"];
            listing(&names) + "queue = 0\n"
        }),
    ];
    let mut text = String::new();
    for (name, pipeline) in cases {
        let errors = plan(&pipeline).err().unwrap_or_else(|| panic!("{name}: it checks"));
        write!(text, "# {name}\n{errors}\n").unwrap();
    }
    snapshot("wrong_pipelines", &text);
}

#[test]
fn wrong_overrides_say_what_to_write() {
    let mut text = String::new();
    for set in [
        "klt_push.window_px",
        "window_px=21",
        "klt_push.=21",
        "klt_push.window_px=4",
        "klt_push.window_px=wide",
        "sift.max_features=3",
        "verdict_lag_frames=few",
        "verdict_lag_frames=0",
    ] {
        let request =
            PipelineRequest { name: "full".into(), set: vec![set.into()], ..PipelineRequest::default() };
        writeln!(text, "{set}\n    {}", request.plan().expect_err(set)).unwrap();
    }
    snapshot("wrong_overrides", &text);
}

#[test]
fn overrides_are_toml_or_bare_words() {
    let mut config = PipelineConfig::load("full").unwrap();
    for set in ["frame_decode.sample_fps=all", "keyframe_gate.tests=[\"phase\"]", "klt_push.min_ncc = 0.5"] {
        config.set(set).unwrap();
    }
    config.set("verdict_lag_frames=2").unwrap();
    let option = |stage: usize, option| config.stages[stage].options[option].clone();
    assert_eq!(option(0, "sample_fps"), "all".into());
    assert_eq!(option(3, "tests"), toml::Value::Array(vec!["phase".into()]));
    assert_eq!(option(2, "min_ncc"), 0.5.into());
    assert_eq!(Plan::new(&config).unwrap().verdict_lag_frames, 2);
}
