"""What the mapper gains: trackweave with one option changed at a time, on the same keyframes, held against the truth.

    make gate [LEVEL=screen|map] [DATA=folder] [ARGS="--scenes NAME ... --arms NAME ... --seeds N"]

    cargo build --release --bin trackweave --example render_scene
    python benches/gate/gate.py screen|map [--data DATA] [--scenes NAME ...] [--arms NAME ...] [--seeds N]

`screen` needs no mapper; it takes the small rendered scenes unless some are named. `map` also maps every run: by the
incremental mapper with seeds 0 .. N-1, from the pair that run.json names as `initial_pair` where it does, and by the
global one. Scenes that are set aside are taken only where they are named, or all of them with --set-aside.

Prints Markdown: a summary of every arm against one (--against), then one row a scene, arm and mapper. In the summary ×
is the geometric mean over the scenes of the arm's number by the other's, (+) the mean of the difference; "joins right"
and "descriptors right" are of matches at distance 3 or more, with those that both gave; the map is the incremental
mapper's, medians over the seeds, of the scenes that both arms map.

  inliers a pair   verified matches of a pair of keyframes, by their distance in keyframes; pairs without count as 0
  right            of the matches before verification (their number in thousands last), those at the true point
                   (rendered) or on the true line (real), by distance 1-2, 3-5, 6 and more: tracks alone (klt),
                   descriptors alone (sift), both
  residual         median distance of inliers to the true line, px of a picture 640 wide: klt, sift, both
  claims           keypoints a track claims, of the tracks with two or more; how many such tracks
  graph            points that the inliers join in three or more images; images a point; share with two keypoints of
                   one image
  ends             tracks by the reason they ended, in percent
  busy             seconds of every stage of at least 0.1 s; cpu: processor seconds of the whole run
  map              of the largest model, median over the seeds (smallest and largest); ATE in percent of the true path's
                   length; rotation: median error in degrees between registered neighbours; processor seconds

What was run is kept under --work by the scene, its keyframes, the arm's options and the program's bytes, and never run
again; what was cut off is begun anew.
Needs: pip install -r benches/gate/requirements.txt
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import re
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "compare"))

from alignment import against_truth
from measure import SOURCES, measure
from scenes import SCENES, SMALL, Footage, digest, write

DISTANCES = (1, 2, 3, 5, 10)
BANDS = ((1, 2), (3, 5), (6, 10**9))


def file_digest(*names):
    return hashlib.sha256(b"".join(pathlib.Path(name).read_bytes() for name in names)).hexdigest()[:12]


def parse_arm(words):
    pipeline, *settings = words.split()
    return pipeline, dict(setting.split("=", 1) for setting in settings)


def cached(path, make):
    if not path.exists():
        write(path, json.dumps(make()))
    return json.loads(path.read_text())


class Run:
    """A run of trackweave on a scene in one arm, kept in a folder of its own."""

    def __init__(self, footage, name, words, options):
        self.footage, self.options = footage, options
        self.pipeline, self.settings = parse_arm(words)
        key = digest(self.pipeline, self.settings, footage.keyframes.read_text(), options.program)
        self.settings["export.matches"] = "true"
        if not any(option.startswith("keyframe_gate.") for option in self.settings):
            self.settings["keyframe_gate.keyframes_file"] = str(footage.keyframes)
        self.folder = options.work / "runs" / footage.folder.name / f"{re.sub('[^a-z0-9]+', '_', name)}-{key}"

    def run(self):
        if self.folder.exists():
            return
        part = self.folder.with_name("part." + self.folder.name)
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = self.footage.command(self.pipeline, self.settings, part)
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        write(part / "cpu.json", json.dumps(cpu))
        shutil.rmtree(part / "images")
        database = sqlite3.connect(part / "database.db", isolation_level=None)
        database.execute("delete from descriptors")  # no mapper reads them
        database.execute("vacuum")
        database.close()
        part.rename(self.folder)

    def measures(self):
        version = file_digest(HERE / "measure.py", HERE.parent / "compare/truth.py")
        measures = cached(self.folder / f"measures-{version}.json", lambda: measure(self.footage, self.folder))
        return measures | {"cpu_s": json.loads((self.folder / "cpu.json").read_text())}

    def map(self, mapper, seed):
        version = file_digest(HERE / "mapping.py")
        path = self.folder / f"{mapper}-{seed}-{version}.json"
        record = json.loads((self.folder / "run.json").read_text())
        pair = record.get("initial_pair") if mapper == "incremental" else None
        mapped = cached(path, lambda: map_database(self.folder / "database.db", mapper, seed, pair))
        numbers = {frame["image"]: frame["frame"] for frame in record["frames"] if frame["image"]}
        poses = self.footage.truth(list(numbers.values())).poses
        return mapped | against_truth({numbers[name]: pose for name, pose in mapped.get("poses", {}).items()}, poses)


def map_database(database, mapper, seed, pair):
    """What mapping.py says of a database; `pair`: as run.json names it, or none."""
    words = [sys.executable, HERE / "mapping.py", database, mapper, seed]
    words += ["--pair", pair["first"], pair["second"]] if pair else []
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{mapper} mapper, seed {seed}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def number(value, digits=2):
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def spread(values, digits):
    """The median, and the smallest and largest where they differ."""
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    low, middle, high = (number(f(values), digits) for f in (min, statistics.median, max))
    return middle if low == high else f"{middle} ({low}–{high})"


def total(measures, what, sources=SOURCES, least=1, most=10**9):
    rows = measures["by_distance"]
    return sum(r[what] for r in rows if r["source"] in sources and least <= r["distance"] <= most)


def share_right(measures, rendered, sources, least=1, most=10**9):
    right, of = ("at_point", "known") if rendered else ("on_line", "matches")
    n = total(measures, of, sources, least, most)
    return total(measures, right, sources, least, most) / n if n else None


def inliers_a_pair(measures, distance):
    n_pairs = measures["keyframes"] - distance
    return total(measures, "inliers", SOURCES, distance, distance) / n_pairs if n_pairs > 0 else None


def slashed(values, digits):
    return " / ".join(number(value, digits) for value in values)


def screen_cells(measures, rendered):
    right = []
    for source in SOURCES:
        n = total(measures, "matches", [source])
        shares = slashed([share_right(measures, rendered, [source], *band) for band in BANDS], 3)
        right.append(f"{shares} ({n / 1000:.1f})" if n else "–")
    residuals = [of and of[0] for of in (measures["residual_px"][source] for source in SOURCES)]
    graph, n_ends = measures["graph"], sum(measures["ends"].values())
    ends = sorted((end for end in measures["ends"].items() if end[1]), key=lambda end: -end[1])
    busy = [f"{name} {s:.1f}" for name, s in measures["stages"].items() if s >= 0.1]
    return [
        str(measures["keyframes"]),
        f"{measures['keypoints']:.0f}",
        slashed([inliers_a_pair(measures, distance) for distance in DISTANCES], 0),
        *right,
        slashed(residuals, 2),
        f"{number(measures['claims_a_track'], 1)} ({measures['tracks']})",
        f"{graph['points']} / {number(graph['mean_images'], 1)} / {number(graph['conflicting'], 3)}",
        ", ".join(f"{name} {100 * n / n_ends:.0f}" for name, n in ends) or "–",
        ", ".join(busy),
        f"{measures['cpu_s']:.1f}",
    ]


SCREEN_HEAD = [
    "keyframes",
    "keypoints",
    f"inliers a pair at {' / '.join(map(str, DISTANCES))}",
    "klt right",
    "sift right",
    "both right",
    "residual",
    "claims",
    "graph",
    "ends %",
    "busy s",
    "cpu s",
]
MAP_COLUMNS = [
    ("models", "models", 0), ("registered", "registered", 0), ("points", "points", 0),
    ("observations", "observations", 0), ("track length", "mean_track_length", 2),
    ("reprojection px", "reprojection_px", 3), ("ATE %", "ate_percent", 3), ("rotation °", "rotation_deg", 3),
    ("mapping cpu s", "cpu_s", 1),
]  # fmt: skip


def rows_of(scene, arm, measures, maps):
    cells = screen_cells(measures, scene.is_rendered)
    name = scene.name + (" (set aside)" if scene.set_aside else "")
    if not maps:
        return [[name, arm, *cells]]
    rows = []
    for mapper, results in maps.items():
        numbers = [{"registered": 0} | result for result in results]
        map_cells = [spread([of.get(key) for of in numbers], digits) for _, key, digits in MAP_COLUMNS]
        rows.append([name, arm, *cells, f"{mapper} × {len(results)}", *map_cells])
        cells = [""] * len(cells)
    return rows


def geometric_mean(values):
    values = [value for value in values if value is not None]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def ratio(a, b):
    return a / b if a and b else None


def median_of(maps, key):
    """The median over the seeds of the incremental mapper; none where one of them gave no map."""
    values = [result.get(key) if result["models"] else None for result in maps["incremental"]]
    return statistics.median(values) if None not in values else None


def registered(maps):
    return statistics.median(result.get("registered", 0) for result in maps["incremental"])


def time_of(measures, *stages):
    return sum(measures["stages"].get(stage, 0.0) for stage in stages)


def summary(results, against, level):
    """One row an arm: geometric means over the scenes of its numbers by those of `against`; shares are differences."""
    head = ["arm", "scenes", "inliers ×", "inliers at 3+ ×", "joins right (+)", "descriptors right (+)", "residual ×"]
    head += ["graph points ×", "images a point ×", "cpu ×"]
    if level == "map":
        head += [
            "registered (+)",
            "points ×",
            "track length ×",
            "reprojection ×",
            "ATE ×",
            "rotation ×",
            "mapping cpu ×",
        ]
    table = [head]
    scenes = list(dict.fromkeys(scene for scene, _ in results))
    for arm in dict.fromkeys(arm for _, arm in results):
        both = [
            (s, *results[s, arm], *results[s, against])
            for s in scenes
            if (s, arm) in results and (s, against) in results
        ]
        if not both:
            continue

        def mean_ratio(of):
            return number(geometric_mean([ratio(of(m, maps), of(m0, maps0)) for _, m, maps, m0, maps0 in both]), 2)

        def mean_difference(of, digits):
            values = [(of(s, m, maps), of(s, m0, maps0)) for s, m, maps, m0, maps0 in both]
            values = [a - b for a, b in values if a is not None and b is not None]
            return f"{statistics.mean(values):+.{digits}f}" if values else "–"

        row = [arm, str(len(both))]
        row.append(mean_ratio(lambda m, _: total(m, "inliers")))
        row.append(mean_ratio(lambda m, _: total(m, "inliers", least=3)))
        for source in ("klt", "sift"):
            row.append(mean_difference(lambda s, m, _: share_right(m, s.is_rendered, [source, "both"], 3), 3))
        row.append(mean_ratio(lambda m, _: residual(m)))
        row.append(mean_ratio(lambda m, _: m["graph"]["points"]))
        row.append(mean_ratio(lambda m, _: m["graph"]["mean_images"]))
        row.append(mean_ratio(lambda m, _: m["cpu_s"]))
        if level == "map":
            row.append(mean_difference(lambda _, __, maps: registered(maps), 1))
            for key in ("points", "mean_track_length", "reprojection_px", "ate_percent", "rotation_deg", "cpu_s"):
                row.append(mean_ratio(lambda _, maps: median_of(maps, key)))
        table.append(row)
    return table


def residual(measures):
    """Median residual of the inliers, sources weighed by their numbers."""
    parts = [(total(measures, "inliers", [s]), measures["residual_px"][s]) for s in SOURCES]
    n = sum(count for count, of in parts if of)
    return sum(count * of[0] for count, of in parts if of) / n if n else None


def markdown(table):
    lines = ["| " + " | ".join(row + [""] * (len(table[0]) - len(row))) + " |" for row in table]
    return "\n".join([lines[0], "|" + "---|" * len(table[0]), *lines[1:]])


def commit():
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=7"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def chosen(options, arms):
    names = [scene.name for scene in SCENES]
    unknown = [name for name in options.scenes or [] if name not in names]
    unknown += [name for name in options.arms or [] if name not in arms]
    if unknown:
        sys.exit(f"no such scene or arm: {', '.join(unknown)}\nscenes: {', '.join(names)}\narms: {', '.join(arms)}")
    if options.scenes:
        return [scene for scene in SCENES if scene.name in options.scenes]
    if options.level == "screen" and not options.set_aside:
        return [scene for scene in SCENES if scene.name in SMALL]
    taken = [scene for scene in SCENES if scene.set_aside == options.set_aside]
    return [scene for scene in taken if scene.is_rendered or options.data]


def gate(options):
    arms = tomllib.loads(options.arms_file.read_text())
    scenes = chosen(options, arms)
    if not options.data and not all(scene.is_rendered for scene in scenes):
        sys.exit("real sequences need --data")
    mappers = [("incremental", seed) for seed in range(options.seeds)] + [("global", 0)]
    results, table, failures = {}, [["scene", "arm", *SCREEN_HEAD]], []
    if options.level == "map":
        table[0] += ["mapper", *(name for name, _, _ in MAP_COLUMNS)]
    for scene in scenes:
        footage = Footage(scene, options.work / "scenes", options.data, options.programs)
        for arm in options.arms or arms:
            try:
                run = Run(footage, arm, arms[arm], options)
                run.run()
                measures, maps = run.measures(), {}
                for mapper, seed in mappers if options.level == "map" else []:
                    maps.setdefault(mapper, []).append(run.map(mapper, seed))
            except RuntimeError as error:
                failures.append(f"{scene.name}, {arm}: {error}")
                print(failures[-1], file=sys.stderr)
                continue
            results[scene, arm] = measures, maps
            table += rows_of(scene, arm, measures, maps)
            print(f"{scene.name}, {arm}: done", file=sys.stderr)
    cores = len(os.sched_getaffinity(0))
    print(f"Commit {commit()}, program {options.program}, {cores} cores. Each arm against {options.against}:\n")
    print(markdown(summary(results, options.against, options.level)), markdown(table), sep="\n\n")
    if failures:
        print("\nFailed:\n", *failures, sep="\n")
    return 1 if failures else 0


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("level", choices=["screen", "map"])
    a.add_argument("--data", type=pathlib.Path, help="folder with sequences/NAME")
    a.add_argument("--scenes", nargs="+", metavar="NAME")
    a.add_argument("--set-aside", action="store_true", help="the scenes that are set aside, not the others")
    a.add_argument("--arms", nargs="+", metavar="NAME")
    a.add_argument("--arms-file", type=pathlib.Path, default=HERE / "arms.toml")
    a.add_argument("--against", default="full", metavar="NAME", help="the arm that the summary compares with")
    a.add_argument("--seeds", type=int, default=5, help="of the incremental mapper")
    a.add_argument("--work", type=pathlib.Path, default=pathlib.Path("out/gate"))
    a.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("target/release"))
    options = a.parse_args()
    options.work, options.programs = options.work.resolve(), options.programs.resolve()
    options.program = file_digest(options.programs / "trackweave")
    try:
        return gate(options)
    except RuntimeError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
