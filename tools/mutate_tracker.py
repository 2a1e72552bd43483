"""Breaks the tracker on purpose, one fault at a time, and says which tests see it.

    python3 tools/mutate_tracker.py [--only WORD ...]

Each fault replaces one piece of text under src that must be there exactly once. The tests of the tracker are built and
run with it, then the file is put back. Prints a Markdown table; fails where a fault survives or no longer applies.
Takes about a minute a fault. --only: faults whose description holds one of the words.
"""

import argparse
import pathlib
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = (["--test", "klt", "--test", "klt_select", "--test", "klt_anchor"], ["--lib", "--", "klt", "kernels", "numerics"])
SHOWN = 3

TRACK = "src/kernels/klt_track.rs"
WINDOW = "src/kernels/klt_track/window.rs"
CHECK = "src/kernels/klt_check.rs"
DOWN = "src/kernels/pyramid_down.rs"
SCHARR = "src/kernels/scharr.rs"
EIGEN = "src/kernels/eigen_map.rs"
SELECT = "src/kernels/klt_select.rs"
SUPPRESS = "src/kernels/klt_suppress.rs"
OCCUPANCY = "src/kernels/klt_occupancy.rs"
PATCH = "src/kernels/klt_patch.rs"
ANCHOR = "src/kernels/klt_anchor.rs"
SAMPLER = "src/kernels/klt_anchor/sampler.rs"
PICTURE = "src/picture.rs"
KLT = "src/klt.rs"
ANCHORS = "src/klt/anchor.rs"
PUSH = "src/stages/klt_push.rs"

# Description, file, what is replaced, by what.
FAULTS = [
    ("gradient in y with the wrong sign", SCHARR, "CENTRE * (centre[1] - centre[0])", "CENTRE * (centre[0] - centre[1])"),
    ("gradients without the half of a central difference", SCHARR, "const CENTRE: f32 = 10.0 / 32.0", "const CENTRE: f32 = 10.0 / 16.0"),
    ("pyramid one row off", DOWN, "let centre = 2 * (chunk * ROWS + i) as isize;", "let centre = 2 * (chunk * ROWS + i) as isize + 1;"),
    ("pyramid's middle tap too small", DOWN, "0.375 * c", "0.37 * c"),
    ("level scale of the search not doubled", TRACK, "position = [2.0 * position[0], 2.0 * position[1]];", "position = [position[0], 2.0 * position[1]];"),
    ("level scale of the template off by one level", TRACK, "windows.read_template(&template.levels[level], at_level(at, level))", "windows.read_template(&template.levels[level], at_level(at, level - 1))"),
    ("stale template: level 0 searched with the last level's window", TRACK, "let sums = windows.read_template(&template.levels[0], at);", "let sums = windows.read_template(&template.levels[1.min(coarsest)], at_level(at, 1.min(coarsest)));"),
    ("template read where the search begins", TRACK, "let sums = windows.read_template(&template.levels[0], at);", "let sums = windows.read_template(&template.levels[0], position);"),
    ("x and y swapped in the inverse", TRACK, "[yy / determinant, -xy / determinant, xx / determinant]", "[xx / determinant, -xy / determinant, yy / determinant]"),
    ("inverse without its minus", TRACK, "[yy / determinant, -xy / determinant, xx / determinant]", "[yy / determinant, xy / determinant, xx / determinant]"),
    ("eigenvalue by the window's pixels, not its weights", TRACK, "/ windows.total_weight", "/ windows.count()"),
    ("eigenvalue without its half", EIGEN, "(0.5 * ((xx + yy) - root))", "((xx + yy) - root)"),
    ("target's mean kept", TRACK, "let mean = if self.photometric == 0 { 0.0 } else { target.gray / self.count };", "let mean = 0.0;"),
    ("template's mean kept", TRACK, "gray[lane] -= mean;", "gray[lane] -= 0.0 * mean;"),
    ("no photometric scale", TRACK, "let gain = if self.photometric == 2 {", "let gain = if self.photometric == 3 {"),
    ("photometric scale upside down", TRACK, "(template / target).sqrt()", "(target / template).sqrt()"),
    ("windows without weights", WINDOW, "*out = weight(i % n) * weight(i / n);", "*out = 1.0;"),
    ("weights that reach zero at the rim", WINDOW, "let u = (i as f32 - half) / (half + 1.0);", "let u = (i as f32 - half) / half;"),
    ("weights missing in the structure", TRACK, "sums[6][lane] += wx * y;", "sums[6][lane] += x * y;"),
    ("taps shifted by a pixel", WINDOW, "x: x as isize - 1", "x: x as isize"),
    ("taps mirrored", WINDOW, "[0.5 * before * before, 0.75 - t * t, 0.5 * after * after]", "[0.5 * after * after, 0.75 - t * t, 0.5 * before * before]"),
    ("gradients of the border repeated outside", TRACK, "(Outside::Border, Outside::Zero, &mut self.under)", "(Outside::Border, Outside::Border, &mut self.under)"),
    ("steps never halved", TRACK, "< 0.0 { 0.5 } else { 1.0 }", "< 0.0 { 1.0 } else { 1.0 }"),
    ("convergence by the squared step", TRACK, "if dx * dx + dy * dy < params.epsilon_px * params.epsilon_px", "if dx * dx + dy * dy < params.epsilon_px"),
    ("the step after which it is short not taken", TRACK, "position = [position[0] + before[0], position[1] + before[1]];\n            if", "if dx * dx + dy * dy >= params.epsilon_px * params.epsilon_px { position = [position[0] + before[0], position[1] + before[1]]; }\n            if"),
    ("right and lower border one pixel too far", PICTURE, "(self.width as f32 - 0.5, self.height as f32 - 0.5)", "(self.width as f32 + 0.5, self.height as f32 + 0.5)"),
    ("left border at the pixel's centre", PICTURE, "x >= -0.5 && y >= -0.5 && x <= right", "x >= 0.0 && y >= -0.5 && x <= right"),
    ("correlation of samples outside too", TRACK, "*shared = shown(i / n, i % n) as u8 as f32;", "*shared = 1.0;"),
    ("correlation without the means", TRACK, "(tj - t / count * j) / energy.sqrt()", "tj / energy.sqrt()"),
    ("correlation of the window before the last step", TRACK, "self.read_target(image, sums.mean, [x, y]);\n        self.find_shared", "self.find_shared"),
    ("one lane of the fold lost", "src/numerics.rs", "for lane in 0..width {\n            partial[lane] += partial[lane + width];", "for lane in 0..width.min(7) {\n            partial[lane] += partial[lane + width];"),
    ("another order of the fold", "src/numerics.rs", "partial[lane] += partial[lane + width];", "partial[lane] += partial[2 * width - 1 - lane];"),
    ("way back from the start, not from where the way there ended", KLT, "klt_track(target, template, &params, forward, backward);", "klt_track(target, template, &params, starts, backward);"),
    ("way back through the pictures in their first order", KLT, "klt_track(target, template, &params, forward, backward);", "klt_track(template, target, &params, forward, backward);"),
    ("way back with the wrong sign", CHECK, "(backward.x - seed.x, backward.y - seed.y)", "(backward.x - seed.x, backward.y + seed.y)"),
    ("way back squared", CHECK, "(dx * dx + dy * dy).sqrt()", "(dx * dx + dy * dy)"),
    ("a way back that ended counts as returned", CHECK, "if backward.is_alive() {", "if true {"),
    ("correlation never asked", CHECK, "None if !correlates => Some(EndReason::Residual),", "None if !correlates && !returns => Some(EndReason::Residual),"),
    ("correlation asked before the way back", CHECK, "None if !returns => Some(EndReason::ForwardBackward),\n            None if !correlates => Some(EndReason::Residual),", "None if !correlates => Some(EndReason::Residual),\n            None if !returns => Some(EndReason::ForwardBackward),"),
    ("anchor: gain not divided out", ANCHOR, "let gain = covariance / variances[0];", "let gain = 1.0;"),
    ("anchor: gain not projected out", PATCH, "- offset - gain;", "- offset;"),
    ("anchor: windows without weights", PATCH, "(weights(n), vec!", "([[0.5; 16]; MAX_CHUNKS], vec!"),
    ("anchor: patch without structure", PATCH, "rest >= least && rest > 0.0", "rest > -1.0"),
    ("anchor: step not inverted", ANCHOR, "[[s / determinant, -q / determinant], [-r / determinant, p / determinant]]", "[[s / determinant, q / determinant], [r / determinant, p / determinant]]"),
    ("anchor: steps never halved", ANCHOR, "< 0.0 { 0.5 } else { 1.0 }", "< 0.0 { 1.0 } else { 1.0 }"),
    ("anchor: any move", ANCHOR, " && is_near", ""),
    ("anchor: out of the picture", ANCHOR, " && image.shows(warp.at)", ""),
    ("anchor: any correlation", ANCHOR, "correlation >= params.min_ncc", "true"),
    ("anchor: window between the pixels shifted", SAMPLER, "at - (rounded - ROUND))", "at - (rounded - ROUND) + 0.02)"),
    ("anchor: window stretched without bound", SAMPLER, "columns <= SIDE as f32 && rows <= SIDE as f32", "true"),
    ("anchor: samples outside count", SAMPLER, "let shown = under.shows(image, x[lane], y[lane]);", "let shown = 1.0;"),
    ("anchor: convergence by the threads", ANCHOR, "squared < params.epsilon_px", "squared < rayon::current_num_threads() as f32 * params.epsilon_px"),
    ("anchor: patches read again", ANCHORS, "self.seeds.clear();", ""),
    ("anchor: map of a lost track for the next in its slot", ANCHORS, "            self.linear[slot] = IDENTITY;", ""),
    ("anchor: map not carried on", ANCHORS, "self.linear[slot] = aligned.linear;", ""),
    ("anchor: position not taken", ANCHORS, "*record = aligned.moved(record, params.seen_ncc);", ""),
    ("anchor: everything is seen", ANCHOR, "self.correlation >= seen_ncc", "true"),
    ("anchor: a mirror is seen", ANCHOR, "&& area > 0.0", ""),
    ("anchor: zoom is an area", ANCHOR, "at.seen(area.sqrt())", "at.seen(area)"),
    ("push: unseen stays seen", PUSH, "record.is_seen() || !options.anchor", "true"),
    ("anchor: a join begins anew", PUSH, "iter().map(|t| t.id).collect();", "iter().map(|t| if t.age == 0 { t.id + 1000 } else { t.id }).collect();"),
    ("selection: no margin", EIGEN, "let margin = half_window.max(1);", "let margin = 1;"),
    ("selection: weakest pixel of a cell", SELECT, "if strength > best.strength {", "if best.strength == 0.0 || strength < best.strength {"),
    ("selection: cells with tracks not free, one too few", SELECT, "let is_free = occupancy.of(cell).is_empty();", "let is_free = occupancy.of(cell).len() < 2;"),
    ("selection: threshold ignored", SELECT, "if best.strength >= threshold", "if best.strength >= 0.0 * threshold"),
    ("selection: one side of the neighbours forgotten", OCCUPANCY, "column.saturating_sub(1)..(column + 2).min(self.columns)", "column.saturating_sub(1)..(column + 1).min(self.columns)"),
    ("selection: first live track of a cell only", SUPPRESS, "occupancy.of(near).iter().all(", "occupancy.of(near).iter().take(1).all("),
    ("selection: a pick falls to a weaker one", SUPPRESS, "other.strength > pick.strength ||", "other.strength < pick.strength ||"),
]


def failing(arguments):
    """Names of the tests that fail; None where nothing could be run."""
    command = ["cargo", "test", "--quiet", "--no-fail-fast", *arguments]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if "test result:" not in output.stdout:
        print(output.stdout, output.stderr, file=sys.stderr)
        return None
    return sorted(set(re.findall(r"^    ([\w:]+)$", output.stdout, re.MULTILINE)))


def caught_by(path, text, broken):
    """The tests that see `broken` in the place of `text`; the unit tests only where no other does."""
    try:
        path.write_text(broken)
        for arguments in TESTS:
            names = failing(arguments)
            if names is None or names:
                return names
        return []
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="words of which a fault's description holds one")
    arguments = parser.parse_args()
    # The broken file is put back when this is killed, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("killed"))
    healthy = [failing(tests) for tests in TESTS]
    if healthy != [[], []]:
        sys.exit(f"the tests fail without a fault: {healthy}")
    bad = 0
    print("| fault | caught by |\n|---|---|", flush=True)
    for what, name, old, new in FAULTS:
        if not any(word in what for word in arguments.only):
            continue
        path = ROOT / name
        text = path.read_text()
        if text.count(old) != 1:
            verdict, caught = f"{name} has its text {text.count(old)} times: bring the fault up to date", False
        else:
            names = caught_by(path, text, text.replace(old, new))
            caught = bool(names)
            verdict = "does not build" if names is None else "nothing: it survives" if not names else ""
            more = f" and {len(names) - SHOWN} more" if caught and len(names) > SHOWN else ""
            verdict = verdict or ", ".join(f"`{test}`" for test in names[:SHOWN]) + more
        bad += not caught
        print(f"| {what} | {verdict} |", flush=True)
    sys.exit(f"{bad} faults are not caught" if bad else 0)


if __name__ == "__main__":
    main()
