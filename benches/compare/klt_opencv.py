"""Our tracker against OpenCV's pyramidal Lucas-Kanade, on the same pictures and the same points.

    make compare [DATA=folder]            (rendered sequences only without DATA)

    cargo build --release --examples
    python benches/compare/klt_opencv.py [DATA] [--only a b c d e] [--set option=value ...] [--json FILE]

Points are OpenCV's goodFeaturesToTrack of the first picture: at most 1000, quality 0.01, 8 px apart. Both trackers
read the same 8-bit gray and run forward and backward; a track lives on while both ways have an answer, its way
back ends within 0.5 px of its start and it stays inside the picture. Over several frames it goes from each frame
to the next; what has ended stays so. The trackers:

  ours            the program's defaults (or --set), with its other checks: correlation, window inside the picture
  ours, no NCC    the same without the check of the correlation
  OpenCV          calcOpticalFlowPyrLK with the window, levels, iterations and epsilon that "ours" has
  ours, 21 px     ours with OpenCV's defaults: window 21, 4 levels (maxLevel 3), 30 iterations, epsilon 0.01
  OpenCV, 21 px   calcOpticalFlowPyrLK with its defaults

Bold: ours is worse than the OpenCV of its settings by more than counting noise. For a count: of the points that
only one of the two has, OpenCV has more, by over two standard deviations of a fair coin. For a median: it is
larger, and on the points that both keep ours is the worse one more often, by as much.

a. Flow pairs with true flow (DATA/flow/<name>/{frame10.png, frame11.png, flow10.flo}, Middlebury); points without
   a known flow are left out. Kept: alive; "< 0.5 px", "< 1 px": kept and off by less. "One way, quality 0.03":
   OpenCV's defaults without the way back at the 1000 best corners of that quality.
b. Rendered rooms (`examples/render_scene.rs`, 17 frames of 640 x 360; see RENDERED): of the points whose true
   place the frame still shows (`truth.py`), the share alive and off by less than 1 and 2 px after 5, 10 and 16
   frames; "off": the share of live tracks of visible points that are 2 px off or more; the median error of those
   alive. Then what became of the points that only OpenCV has within 1 px after 10 frames, and how many only ours
   has.
c. Real sequences (DATA/sequences/<name>/{video.mp4, calib.json, gt_poses.txt}) sampled at 5 (vamr_corner) and 10
   frames/s, 640 wide, started every 8 sampled frames: of all points, those alive and within 1 and 2 px of the line
   that the true poses give, and the median distance of those alive. Neighbouring poses of vamr_corner are off by
   about 0.2 degrees, so its distances are mostly the truth's own.
d. The first pair of each sequence: what ours and the OpenCV of its settings keep, and how far apart their answers
   are where both keep the point.
e. scikit-image's dense optical_flow_ilk (radius half our window) read at the same points, on those that ours and
   OpenCV keep: errors where the truth is known, and how far ours and OpenCV are from it.

Times: ms a pair, median; ours: pyramid, forward and backward; OpenCV: both calls, each of which builds its
pyramids.
Needs: pip install -r benches/compare/requirements.txt
"""

import argparse
import dataclasses
import functools
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import cv2
import numpy as np
from sequences import read_flow_pair, read_rendered, read_video
from skimage.registration import optical_flow_ilk
from truth import fundamental, line_distances, true_points

FLOW_PAIRS = ["RubberWhale", "Grove2"]
# Arguments of render_scene: path, frames, width, frames/s, effects.
RENDERED = {
    "roll": "roll 17 640 5",
    "zoom in": "forward 17 640 5",
    "parallax": "hand_held 17 640 5",
    "orbit": "orbit 17 640 5",
    "fast pan": "fast_pan 17 640 10 shutter_s=0.02",
    "blur": "hand_held 17 640 5 shutter_s=0.04",
    "noise": "hand_held 17 640 5 noise=6",
    "drift": "hand_held 17 640 5 gain_a_second=0.8",
    "rolling gain": "hand_held 17 640 5 gain_jitter=0.25 offset_jitter=12",
    "night": "hand_held 17 640 5 shutter_s=0.02 noise=5 gain_jitter=0.15 offset_jitter=6",
}
# Frames from one sampled frame to the next.
REAL = {"vamr_corner": 6, "icl_kt3_200": 3, "kitti_s1": 1}
AGES = (5, 10, 16)
START_EVERY = 8
FORWARD_BACKWARD_PX = 0.5
REASONS = ["alive", "out of frame", "low structure", "no convergence", "forward-backward", "correlation"]
PAIRS = {"ours": "OpenCV", "ours, no NCC": "OpenCV", "ours, 21 px": "OpenCV, 21 px"}


@dataclasses.dataclass
class Tracks:
    """Positions (frames, points, 2), whether alive and why not (frames, points), ms a pair, klt_dump's options."""

    positions: np.ndarray
    alive: np.ndarray
    reasons: np.ndarray
    milliseconds: float
    options: dict


class Trackers:
    """Both trackers with their settings; `arguments.set` goes to ours."""

    def __init__(self, arguments):
        self.dump = arguments.programs / "klt_dump"
        ours = dict(word.split("=") for word in arguments.set)
        self.settings = {
            "ours": ours,
            "ours, no NCC": ours | {"min_ncc": -1},
            "ours, 21 px": ours | {"window_px": 21, "levels": 4, "max_iterations": 30, "epsilon_px": 0.01},
        }

    def run(self, frames, points):
        """Tracks of each tracker by name."""
        tracks = {}
        with tempfile.TemporaryDirectory() as folder:
            paths = [f"{folder}/{n:06}.png" for n in range(len(frames))]
            for path, frame in zip(paths, frames):
                cv2.imwrite(path, frame)
            np.savetxt(f"{folder}/points.csv", points, "%.9g", ",")
            for name, settings in self.settings.items():
                tracks[name] = self.run_ours(folder, paths, settings)
                if name in ("ours", "ours, 21 px"):
                    tracks[PAIRS[name]] = run_opencv(frames, points, tracks[name].options)
        return {name: tracks[name] for name in ("ours", "ours, no NCC", "OpenCV", "ours, 21 px", "OpenCV, 21 px")}

    def run_ours(self, folder, paths, settings):
        words = [f"{option}={value}" for option, value in settings.items()]
        command = [self.dump, f"{folder}/out.npy", f"{folder}/points.csv", *words, *paths]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        times = [sum(map(float, line.split()[-3:-1])) for line in output[1:]]
        records = np.load(f"{folder}/out.npy")
        status = records[..., 3].astype(int)
        alive, reasons = status & 1 == 1, status >> 1 & 15
        return Tracks(records[..., :2], alive, reasons, float(np.median(times)), json.loads(output[0]))


def run_opencv(frames, points, options):
    window = (options["window_px"],) * 2
    stop = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, options["max_iterations"], options["epsilon_px"])
    settings = {"winSize": window, "maxLevel": options["levels"] - 1, "criteria": stop}
    push = functools.partial(cv2.calcOpticalFlowPyrLK, nextPts=None, **settings)
    height, width = frames[0].shape
    positions, alive, times = [points.astype(np.float32)], [np.ones(len(points), bool)], []
    for frame, following in zip(frames, frames[1:]):
        living = np.flatnonzero(alive[-1])
        start = positions[-1][living]
        now, lives = positions[-1].copy(), np.zeros(len(points), bool)
        if len(living):
            begin = time.perf_counter()
            there, found, _ = push(frame, following, start[:, None])
            back, returned, _ = push(following, frame, there)
            times.append(1e3 * (time.perf_counter() - begin))
            there, back = there[:, 0], back[:, 0]
            inside = (there >= 0).all(1) & (there[:, 0] <= width - 1) & (there[:, 1] <= height - 1)
            near = np.hypot(*(back - start).T) <= FORWARD_BACKWARD_PX
            now[living] = there
            lives[living] = (found[:, 0] == 1) & (returned[:, 0] == 1) & inside & near
        positions.append(now)
        alive.append(lives)
    alive = np.array(alive)
    return Tracks(np.array(positions), alive, np.zeros(alive.shape, int), float(np.median(times)), options)


def corners(frame, quality=0.01):
    return cv2.goodFeaturesToTrack(frame, 1000, quality, 8)[:, 0]


@dataclasses.dataclass
class Pair:
    """Two frames, points of the first and, where known, their true places in the second (else NaN)."""

    name: str
    first: np.ndarray
    second: np.ndarray
    points: np.ndarray
    true: np.ndarray
    folder: pathlib.Path | None = None

    def errors(self, positions):
        return np.hypot(*(positions - self.true).T)


def read_pair(folder, quality=0.01):
    """A flow pair with the corners whose flow is known."""
    first, second, flow = read_flow_pair(folder)
    points = corners(first, quality)
    true = points + flow[points[:, 1].astype(int), points[:, 0].astype(int)]
    known = np.isfinite(true).all(1)
    return Pair(folder.name, first, second, points[known], true[known], folder)


def first_pair(sequence):
    """The first two frames of a sequence."""
    numbers = sorted(sequence.frames)[:2]
    first, second = (sequence.frames[n] for n in numbers)
    points = corners(first)
    true = np.full(points.shape, np.nan)
    if sequence.inverse_depths:
        seen, known = true_points(sequence, *numbers, points)
        true[known] = seen[known]
    return Pair(sequence.name, first, second, points, true)


def more(ours, theirs):
    """Whether the second of two sets of flags has more of what only one has, beyond counting noise."""
    lost, won = (theirs & ~ours).sum(), (ours & ~theirs).sum()
    return lost - won > 2 * np.sqrt(lost + won)


def quantile(errors, share):
    return float(np.quantile(errors, share)) if len(errors) else float("nan")


def worse_median(ours, theirs, both):
    """Whether errors on the points `both` keep are more often larger for ours, beyond counting noise."""
    return more(theirs[both] > ours[both], theirs[both] < ours[both])


class Report:
    """Prints Markdown tables and keeps their rows for a machine."""

    def __init__(self):
        self.rows = []

    def title(self, text, columns, n_names):
        print(f"\n## {text}\n\n| " + " | ".join(columns) + " |")
        print("|" + "---|" * n_names + "---:|" * (len(columns) - n_names), flush=True)

    def row(self, cells, **values):
        """`cells` as printed; (text, bold) where it may be bold."""
        cells = [cell if isinstance(cell, tuple) else (cell, False) for cell in cells]
        print("| " + " | ".join(f"**{text}**" if bold else str(text) for text, bold in cells) + " |", flush=True)
        self.rows.append({key: None if value != value else value for key, value in values.items()})


def flow_pairs(pairs, trackers, report):
    columns = ["pair", "tracker", "points", "kept", "< 0.5 px", "< 1 px", "median px", "95 % px", "ms"]
    report.title("a. Flow pairs with true flow", columns, 2)
    for pair in pairs:
        tracks = trackers.run([pair.first, pair.second], pair.points)
        errors = {tracker: pair.errors(each.positions[1]) for tracker, each in tracks.items()}
        kept = {tracker: each.alive[1] for tracker, each in tracks.items()}
        for tracker in tracks:
            error, alive, other = errors[tracker], kept[tracker], PAIRS.get(tracker)
            right = [alive & (error < limit) for limit in (0.5, 1)]
            median, high = quantile(error[alive], 0.5), quantile(error[alive], 0.95)
            bold = [False] * 3
            if other:
                bold = [more(mine, kept[other] & (errors[other] < limit)) for mine, limit in zip(right, (0.5, 1))]
                worse = worse_median(error, errors[other], alive & kept[other])
                bold.append(worse and median > quantile(errors[other][kept[other]], 0.5))
            report.row(
                [pair.name, tracker, len(error), alive.sum(), (right[0].sum(), bold[0]), (right[1].sum(), bold[1]),
                 (f"{median:.4f}", bold[2]), f"{high:.3f}", f"{tracks[tracker].milliseconds:.1f}"],
                table="a", sequence=pair.name, tracker=tracker, points=len(error), kept=int(alive.sum()),
                right_half_px=int(right[0].sum()), right_1_px=int(right[1].sum()), median_px=median, p95_px=high,
            )
        strong = read_pair(pair.folder, 0.03)
        found, status, _ = cv2.calcOpticalFlowPyrLK(strong.first, strong.second, strong.points[:, None], None)
        error, good = strong.errors(found[:, 0]), status[:, 0] == 1
        median, high = quantile(error[good], 0.5), quantile(error[good], 0.95)
        n_kept, right = int(good.sum()), [int((error[good] < limit).sum()) for limit in (0.5, 1)]
        name = "OpenCV, 21 px, one way, quality 0.03"
        report.row(
            [pair.name, name, len(error), n_kept, *right, f"{median:.4f}", f"{high:.3f}", ""], table="a",
            sequence=pair.name, tracker=name, points=len(error), kept=n_kept, right_half_px=right[0],
            right_1_px=right[1], median_px=median, p95_px=high,
        )


def rendered(folder, programs, name):
    """The rendered sequence of a name, rendered again where the program or its arguments changed."""
    program, out = programs / "render_scene", folder / name.replace(" ", "_")
    made_by = f"{RENDERED[name]} {hashlib.sha256(program.read_bytes()).hexdigest()}"
    stamp = out / "made_by.txt"
    if not stamp.exists() or stamp.read_text() != made_by:
        subprocess.run([program, out, *RENDERED[name].split()], check=True, capture_output=True)
        stamp.write_text(made_by)
    sequence = read_rendered(out, 1)
    sequence.name = name
    return sequence


def reversed_in_time(sequence, name):
    last = max(sequence.frames)
    turn = lambda by_number: {last - n: by_number[n] for n in sorted(by_number, reverse=True)}
    return dataclasses.replace(sequence, name=name, frames=turn(sequence.frames), poses=turn(sequence.poses),
                               inverse_depths=turn(sequence.inverse_depths))


def survival(sequences, trackers, report):
    ages = [f"{age}: {what}" for age in AGES for what in ("< 1 px %", "< 2 px %", "off %", "median px")]
    report.title("b. Rendered sequences with true flow", ["sequence (visible)", "tracker", *ages, "ms"], 2)
    fates = []
    for sequence in sequences:
        frames = [sequence.frames[n] for n in range(max(AGES) + 1)]
        points = corners(frames[0])
        tracks = trackers.run(frames, points)
        truth = {age: true_points(sequence, 0, age, points) for age in AGES}
        visible = ", ".join(str(seen.sum()) for _, seen in truth.values())
        right, errors, alive = {}, {}, {}
        for tracker, each in tracks.items():
            for age, (true, seen) in truth.items():
                errors[tracker, age] = np.hypot(*(each.positions[age] - true).T)
                alive[tracker, age] = each.alive[age] & seen
                for limit in (1, 2):
                    right[tracker, age, limit] = alive[tracker, age] & (errors[tracker, age] < limit)
        for tracker, each in tracks.items():
            cells, values, other = [], {}, PAIRS.get(tracker)
            for age, (_, seen) in truth.items():
                error, lives, n_seen = errors[tracker, age], alive[tracker, age], max(seen.sum(), 1)
                for limit in (1, 2):
                    mine = right[tracker, age, limit]
                    worse = other and more(mine, right[other, age, limit])
                    cells.append((f"{100 * mine.sum() / n_seen:.1f}", worse))
                    values[f"right_{limit}_px_{age}"] = int(mine.sum())
                off, median = (lives & (error >= 2)).sum(), quantile(error[lives], 0.5)
                cells.append(f"{100 * off / max(lives.sum(), 1):.1f}")
                bold = other and median > quantile(errors[other, age][alive[other, age]], 0.5)
                bold = bold and worse_median(error, errors[other, age], lives & alive[other, age])
                cells.append((f"{median:.3f}", bold))
                values |= {f"visible_{age}": int(seen.sum()), f"alive_{age}": int(lives.sum()),
                           f"off_{age}": int(off), f"median_px_{age}": median}
            report.row([f"{sequence.name} ({visible})", tracker, *cells, f"{each.milliseconds:.1f}"], table="b",
                       sequence=sequence.name, tracker=tracker, points=len(points), **values)
        for tracker, other in PAIRS.items():
            mine, theirs, age = right[tracker, 10, 1], right[other, 10, 1], 10
            lost, reasons = theirs & ~mine, tracks[tracker].reasons[age]
            fates.append((sequence.name, tracker, lost, reasons, int((mine & ~theirs).sum())))
    report.title("What became of the points that only OpenCV has within 1 px after 10 frames",
                 ["sequence", "tracker", "only OpenCV", "alive, but off", *REASONS[1:], "only ours"], 2)
    for name, tracker, lost, reasons, won in fates:
        counts = [int((reasons[lost] == reason).sum()) for reason in range(len(REASONS))]
        report.row([name, tracker, lost.sum(), *counts, won], table="b, lost", sequence=name, tracker=tracker,
                   only_opencv=int(lost.sum()), only_ours=won, **dict(zip(REASONS, counts)))


def epipolar(sequences, trackers, report):
    ages = [f"{age}: {what}" for age in AGES for what in ("alive", "< 1 px", "< 2 px", "median px")]
    report.title("c. Real sequences with true epipolar lines", ["sequence (points)", "tracker", *ages, "ms"], 2)
    for sequence in sequences:
        numbers = sorted(sequence.frames)
        alive, distances, milliseconds = {}, {}, {}
        for start in range(0, len(numbers) - max(AGES), START_EVERY):
            span = numbers[start : start + max(AGES) + 1]
            points = corners(sequence.frames[span[0]])
            for tracker, each in trackers.run([sequence.frames[n] for n in span], points).items():
                milliseconds.setdefault(tracker, []).append(each.milliseconds)
                for age in AGES:
                    f = fundamental(sequence.intrinsics, sequence.poses[span[0]], sequence.poses[span[age]])
                    distances.setdefault((tracker, age), []).append(line_distances(f, points, each.positions[age]))
                    alive.setdefault((tracker, age), []).append(each.alive[age])
        alive = {key: np.concatenate(parts) for key, parts in alive.items()}
        distances = {key: np.concatenate(parts) for key, parts in distances.items()}
        for tracker, times in milliseconds.items():
            cells, values, other = [], {}, PAIRS.get(tracker)
            for age in AGES:
                lives, distance = alive[tracker, age], distances[tracker, age]
                n_points, median = len(lives), quantile(distance[lives], 0.5)
                cells.append(lives.sum())
                for limit in (1, 2):
                    near = lives & (distance < limit)
                    theirs = other and alive[other, age] & (distances[other, age] < limit)
                    cells.append((near.sum(), other and more(near, theirs)))
                    values[f"near_{limit}_px_{age}"] = int(near.sum())
                bold = other and median > quantile(distances[other, age][alive[other, age]], 0.5)
                bold = bold and worse_median(distance, distances[other, age], lives & alive[other, age])
                cells.append((f"{median:.3f}", bold))
                values |= {f"alive_{age}": int(lives.sum()), f"median_px_{age}": median}
            spent = float(np.median(times))
            report.row([f"{sequence.name} ({n_points})", tracker, *cells, f"{spent:.1f}"], table="c",
                       sequence=sequence.name, tracker=tracker, points=n_points, **values)


def agreement(pairs, trackers, report):
    columns = ["pair", "trackers", "points", "ours keeps", "OpenCV keeps", "both", "median px", "95 % px"]
    report.title("d. Distance of our answer to OpenCV's", columns, 2)
    for pair in pairs:
        tracks = trackers.run([pair.first, pair.second], pair.points)
        for tracker, other in PAIRS.items():
            mine, theirs = tracks[tracker], tracks[other]
            both = mine.alive[1] & theirs.alive[1]
            apart = np.hypot(*(mine.positions[1] - theirs.positions[1])[both].T)
            median, high = quantile(apart, 0.5), quantile(apart, 0.95)
            n_ours, n_opencv = int(mine.alive[1].sum()), int(theirs.alive[1].sum())
            counts = [len(both), n_ours, n_opencv, both.sum()]
            report.row(
                [pair.name, f"{tracker} – {other}", *counts, f"{median:.4f}", f"{high:.3f}"], table="d",
                sequence=pair.name, tracker=tracker, points=len(both), kept=n_ours, kept_opencv=n_opencv,
                both=int(both.sum()), median_px=median, p95_px=high,
            )


def against_ilk(pairs, trackers, report):
    columns = ["pair", "tracker", "points", "median px", "95 % px", "median px to ilk", "95 % px to ilk"]
    report.title("e. A second reference: optical_flow_ilk", columns, 2)
    for pair in pairs:
        tracks = trackers.run([pair.first, pair.second], pair.points)
        first, second = (image.astype(np.float32) / 255 for image in (pair.first, pair.second))
        down, across = optical_flow_ilk(first, second, radius=tracks["ours"].options["window_px"] // 2)
        x, y = pair.points.astype(int).T
        ilk = pair.points + np.c_[across[y, x], down[y, x]]
        both = tracks["ours"].alive[1] & tracks["OpenCV"].alive[1] & np.isfinite(pair.true).all(1)
        answers = {"ours": tracks["ours"].positions[1], "OpenCV": tracks["OpenCV"].positions[1], "ilk": ilk}
        for tracker, positions in answers.items():
            error, apart = pair.errors(positions)[both], np.hypot(*(positions - ilk)[both].T)
            shares = [quantile(values, share) for values in (error, apart) for share in (0.5, 0.95)]
            report.row([pair.name, tracker, both.sum(), *(f"{value:.4f}" for value in shares)], table="e",
                       sequence=pair.name, tracker=tracker, points=int(both.sum()), median_px=shares[0],
                       p95_px=shares[1], median_to_ilk_px=shares[2], p95_to_ilk_px=shares[3])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=pathlib.Path, help="holds flow/ and sequences/")
    parser.add_argument("--programs", type=pathlib.Path, default="target/release/examples")
    parser.add_argument("--rendered", type=pathlib.Path, default="out/compare", help="keeps rendered frames")
    parser.add_argument("--set", nargs="*", default=[], help="option=value of our tracker")
    parser.add_argument("--only", nargs="*", default=list("abcde"), help="tables")
    parser.add_argument("--sequences", nargs="*", default=[*FLOW_PAIRS, *RENDERED, "zoom out", *REAL])
    parser.add_argument("--json", type=pathlib.Path, help="the rows for a machine")
    arguments = parser.parse_args()
    trackers, report = Trackers(arguments), Report()
    if arguments.data is None:
        print("No DATA: rendered sequences only, without flow pairs and real sequences.")
    wanted, data = arguments.sequences, arguments.data
    pairs = [read_pair(data / "flow" / name) for name in FLOW_PAIRS if data and name in wanted]
    rooms = [rendered(arguments.rendered, arguments.programs, name) for name in RENDERED if name in wanted]
    if "zoom out" in wanted:
        forward = rendered(arguments.rendered, arguments.programs, "zoom in")
        rooms.append(reversed_in_time(forward, "zoom out"))
    real = [read_video(data / "sequences" / name, step) for name, step in REAL.items() if data and name in wanted]
    if pairs and "a" in arguments.only:
        flow_pairs(pairs, trackers, report)
    if rooms and "b" in arguments.only:
        survival(rooms, trackers, report)
    if real and "c" in arguments.only:
        epipolar(real, trackers, report)
    if "d" in arguments.only:
        agreement([*pairs, *map(first_pair, rooms), *map(first_pair, real)], trackers, report)
    if "e" in arguments.only:
        against_ilk([*pairs, *(first_pair(room) for room in rooms if room.name == "parallax")], trackers, report)
    if arguments.json:
        arguments.json.write_text("".join(json.dumps(row) + "\n" for row in report.rows))


if __name__ == "__main__":
    sys.exit(main())
