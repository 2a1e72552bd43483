"""The whole way from frames to a map: trackweave and COLMAP's mapper against COLMAP alone, in turns, on known scenes.

    cargo build --release --bin trackweave --example render_scene
    python benches/compare/against_colmap.py [--data DATA] [--scenes NAME ...] [--repeats N] [--set OPTION=VALUE ...]

Scenes are the gate's (`benches/gate/scenes.py`): without --scenes all that are not set aside, real sequences where
--data names the folder that has sequences/NAME. The two ways:

  trackweave  `trackweave run full`, whose own gate chooses the keyframes, then the incremental mapper, begun with the
              pair that run.json names as `initial_pair`
  COLMAP      its features and sequential matching of all sampled frames, then the incremental mapper

Both have the same sampled frames, SIFT features from pictures 640 wide, at most 4096 an image (trackweave's tracks have
keypoints of their own besides), the CPU alone, and the true intrinsics, which the mapper holds. COLMAP's images (JPEG,
quality 95) are written before the clock starts; trackweave's time has decoding, tracking and the writing of its images
in it. Every repeat goes both ways once; the mapper's seed is the repeat's number.

Prints Markdown, one row a scene and way; medians over the repeats (smallest and largest):

  images         that the mapper was given
  maps           repeats that gave a map; those without count as 0 in models and registered; their times count
  models         models that the mapper made; the numbers are of the one with most images
  registered     images; then points, and the mean number of images a point
  ATE, rotation  ATE in percent of the true path's length, and the median error in degrees between registered
                 neighbours, which are further apart among keyframes than among all frames
  same frames    how many frames both ways registered, then ATE and rotation of these alone
  features s     wall seconds to the database that the mapper takes: features, matching, and with trackweave all else
  mapping s      wall seconds of the mapper
  total s        both; ÷ COLMAP: by COLMAP's of the same repeat, if both gave a map

Needs: pip install -r benches/gate/requirements.txt
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile
import time

import pycolmap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gate"))

from alignment import against_truth
from gate import commit, file_digest, map_database, markdown, number, spread
from scenes import SCENES, WIDTH, Footage, quiet

MAX_FEATURES = 4096
COLUMNS = [
    ("images", "images", 0), ("models", "models", 0), ("registered", "registered", 0), ("points", "points", 0),
    ("track length", "mean_track_length", 2), ("ATE %", "ate_percent", 3), ("rotation °", "rotation_deg", 3),
    ("same frames", "same", 0), ("ATE % of these", "same_ate_percent", 3),
    ("rotation ° of these", "same_rotation_deg", 3), ("features s", "features_s", 2), ("mapping s", "wall_s", 2),
    ("total s", "total_s", 2), ("÷ COLMAP", "ratio", 2),
]  # fmt: skip


def image_frames(out):
    """Frame numbers by image names of a run of trackweave."""
    frames = json.loads((out / "run.json").read_text())["frames"]
    return {frame["image"]: frame["frame"] for frame in frames if frame["image"]}


def trackweave(footage, settings, out):
    """Wall seconds to a database, the pair to begin with, frame numbers by image names."""
    start = time.perf_counter()
    quiet(*footage.command("full", settings, out))
    seconds = time.perf_counter() - start
    pair = json.loads((out / "run.json").read_text()).get("initial_pair")
    return seconds, pair, image_frames(out)


def colmap(images, database, camera):
    """Wall seconds to a database; runs in a process of its own."""
    pycolmap.logging.minloglevel = 3
    model, *params = camera
    reader = pycolmap.ImageReaderOptions(camera_model=model, camera_params=",".join(map(str, params)))
    extraction = pycolmap.FeatureExtractionOptions(max_image_size=WIDTH, use_gpu=False)
    extraction.sift.max_num_features = MAX_FEATURES
    matching = pycolmap.FeatureMatchingOptions(use_gpu=False)
    start = time.perf_counter()
    pycolmap.extract_features(
        database,
        images,
        camera_mode=pycolmap.CameraMode.SINGLE,
        reader_options=reader,
        extraction_options=extraction,
    )
    pycolmap.match_sequential(database, matching_options=matching)
    return time.perf_counter() - start


def in_a_process(function, *arguments):
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, fresh) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except Exception as error:  # whatever ended it ends this repeat alone
            raise RuntimeError(f"COLMAP's features: {error}") from error


def result(footage, database, seed, features_s, pair, frames):
    mapped = map_database(database, "incremental", seed, pair)
    poses = {frames[name]: pose for name, pose in mapped.pop("poses", {}).items()}
    total_s = features_s + mapped["wall_s"]
    numbers = {"registered": 0} | mapped | {"images": len(frames), "features_s": features_s, "total_s": total_s}
    return numbers | against_truth(poses, footage.truth(poses).poses) | {"poses": poses}


def our_way(footage, folder, settings, seed):
    seconds, pair, frames = trackweave(footage, settings, folder / "full")
    return result(footage, folder / "full" / "database.db", seed, seconds, pair, frames)


def colmaps_way(footage, folder, seed):
    database = folder / "colmap.db"
    database.unlink(missing_ok=True)
    seconds = in_a_process(colmap, folder / "all" / "images", database, footage.camera)
    return result(footage, database, seed, seconds, None, image_frames(folder / "all"))


def compare(footage, ours, colmaps):
    """Adds what one repeat's two results say only together, where both gave a map."""
    if not (ours["models"] and colmaps["models"]):
        return
    ours["ratio"] = ours["total_s"] / colmaps["total_s"]
    same = ours["poses"].keys() & colmaps["poses"].keys()
    truth = footage.truth(same).poses
    for of in (ours, colmaps):
        errors = against_truth({frame: of["poses"][frame] for frame in same}, truth)
        of["same"] = len(same)
        of |= {f"same_{name}": error for name, error in errors.items()}


def go_both_ways(footage, options):
    """Results by way, one a repeat that ran through, with or without a map; what did not run through."""
    results, failures = {"trackweave": [], "COLMAP": []}, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        quiet(*footage.command("extract", {"keyframe_gate.tests": "[]"}, folder / "all"))
        ways = {
            "trackweave": lambda seed: our_way(footage, folder, options.settings, seed),
            "COLMAP": lambda seed: colmaps_way(footage, folder, seed),
        }
        for seed in range(options.repeats):
            turn = {}
            for name, way in ways.items():
                try:
                    turn[name] = way(seed)
                except RuntimeError as error:
                    failures.append(f"{footage.scene.name}, {name}, repeat {seed}: {error}")
                    print(failures[-1], file=sys.stderr)
                    continue
                results[name].append(turn[name])
            if len(turn) == 2:
                compare(footage, *turn.values())
            print(f"{footage.scene.name}, repeat {seed}: done", file=sys.stderr)
    return results, failures


def cells(results, repeats):
    n_maps = sum(bool(of["models"]) for of in results)
    images, *others = [spread([of.get(key) for of in results], digits) for _, key, digits in COLUMNS]
    return [images, f"{n_maps} of {repeats}", *others]


def chosen(options):
    names = [scene.name for scene in SCENES]
    unknown = [name for name in options.scenes or [] if name not in names]
    if unknown:
        sys.exit(f"no such scene: {', '.join(unknown)}\nscenes: {', '.join(names)}")
    if options.scenes:
        scenes = [scene for scene in SCENES if scene.name in options.scenes]
    else:
        scenes = [scene for scene in SCENES if not scene.set_aside and (scene.is_rendered or options.data)]
    if not options.data and not all(scene.is_rendered for scene in scenes):
        sys.exit("real sequences need --data")
    return scenes


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--data", type=pathlib.Path, help="folder with sequences/NAME")
    a.add_argument("--scenes", nargs="+", metavar="NAME")
    a.add_argument("--repeats", type=int, default=5)
    a.add_argument("--set", nargs="+", action="extend", default=[], metavar="OPTION=VALUE", help="of trackweave")
    a.add_argument("--work", type=pathlib.Path, default=pathlib.Path("out/gate"), help="keeps the rendered scenes")
    a.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("target/release"))
    options = a.parse_args()
    if options.repeats < 1 or not all("=" in setting for setting in options.set):
        a.error("--repeats takes 1 or more, --set OPTION=VALUE")
    options.settings = dict(setting.split("=", 1) for setting in options.set)
    options.programs = options.programs.resolve()
    if not (options.programs / "trackweave").exists():
        sys.exit(f"no trackweave in {options.programs}")
    heads = [head for head, _, _ in COLUMNS]
    table, failures, ratios = [["scene", "way", heads[0], "maps", *heads[1:]]], [], []
    scenes = chosen(options)
    for scene in scenes:
        try:
            footage = Footage(scene, options.work.resolve() / "scenes", options.data, options.programs)
            results, failed = go_both_ways(footage, options)
        except (RuntimeError, OSError) as error:
            failures.append(f"{scene.name}: {error}")
            print(failures[-1], file=sys.stderr)
            continue
        failures += failed
        table += [[scene.name, way, *cells(of, options.repeats)] for way, of in results.items()]
        of_scene = [of["ratio"] for of in results["trackweave"] if "ratio" in of]
        ratios += [statistics.median(of_scene)] if of_scene else []
    program, cores = file_digest(options.programs / "trackweave"), len(os.sched_getaffinity(0))
    print(f"Commit {commit()}, program {program}, {cores} cores, pycolmap {pycolmap.__version__}.", end=" ")
    print(f"Settings: {' '.join(options.set) or 'the defaults'}.\n")
    print(markdown(table))
    if ratios:
        mean = number(statistics.geometric_mean(ratios))
        where = f"{len(ratios)} of {len(scenes)} scenes, where both ways gave a map"
        print(f"\nTotal time by COLMAP's, geometric mean of {where}: {mean}")
    if failures:
        print("\nFailed:\n", *failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
