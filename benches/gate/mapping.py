"""Maps a COLMAP database with pycolmap, intrinsics fixed, and prints what came of it as JSON.

    python benches/gate/mapping.py DATABASE incremental|global SEED [--pair IMAGE_ID IMAGE_ID]

The numbers are those of the model with most registered images; `poses` are its cameras from the world, rows of 3 x 4 by
the image's name; `cpu_s` is the processor time of the mapper. --pair: the first pair of the incremental mapper, taken
as it is named, without tests of its angle or its forward motion. COLMAP migrates what it opens: the database is copied.
"""

import argparse
import json
import pathlib
import resource
import shutil
import tempfile
import time

import pycolmap


def incremental(database, folder, seed, pair):
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = seed
    options.ba_refine_focal_length = options.ba_refine_extra_params = options.ba_refine_principal_point = False
    if pair:
        options.init_image_id1, options.init_image_id2 = pair
        options.mapper.init_min_tri_angle, options.mapper.init_max_forward_motion = 1.0, 1.0
    return pycolmap.incremental_mapping(database, folder, folder, options)


def at_once(database, folder, seed):
    options = pycolmap.GlobalPipelineOptions()
    options.random_seed = options.mapper.random_seed = seed
    adjustment = options.mapper.bundle_adjustment
    adjustment.refine_focal_length = adjustment.refine_extra_params = adjustment.refine_principal_point = False
    return pycolmap.global_mapping(database, folder, folder, options)


def processor_time():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("database", type=pathlib.Path)
    a.add_argument("mapper", choices=["incremental", "global"])
    a.add_argument("seed", type=int)
    a.add_argument("--pair", nargs=2, type=int, metavar="IMAGE_ID")
    options = a.parse_args()
    pycolmap.logging.minloglevel = 3
    pycolmap.set_random_seed(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "database.db"
        shutil.copy(options.database, copy)
        wall, cpu = time.perf_counter(), processor_time()
        if options.mapper == "incremental":
            models = incremental(copy, folder, options.seed, options.pair)
        else:
            models = at_once(copy, folder, options.seed)
        seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": processor_time() - cpu}
    result = {"models": len(models), **seconds}
    if models:
        best = max(models.values(), key=lambda model: model.num_reg_images())
        registered = [image for image in best.images.values() if image.has_pose]
        result |= {
            "registered": best.num_reg_images(),
            "points": best.num_points3D(),
            "observations": best.compute_num_observations(),
            "mean_track_length": best.compute_mean_track_length(),
            "reprojection_px": best.compute_mean_reprojection_error(),
            "poses": {image.name: image.cam_from_world().matrix().tolist() for image in registered},
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
