"""Reads a database with pycolmap's own reader, maps it, prints what came of it as one line of JSON.

usage: map_with_pycolmap.py DATABASE CX,CY,CZ ...      the last: true camera centres in the order of image ids

pycolmap 3.10 to 4.2. COLMAP migrates what it opens, so everything happens on copies.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import pycolmap


def opened(path):
    try:
        return pycolmap.Database.open(str(path))
    except TypeError:  # before 3.12 `open` is a method
        return pycolmap.Database(str(path))


def contents(path):
    database = opened(path)
    images = sorted(database.read_all_images(), key=lambda image: image.image_id)
    ids = [image.image_id for image in images]
    cameras = database.read_all_cameras()
    first, last = ids[0], ids[-1]
    out = {
        "cameras": [[int(c.model.value) if hasattr(c.model, "value") else int(c.model), c.width, c.height, [float(p) for p in c.params]] for c in cameras],
        "images": [[image.image_id, image.name] for image in images],
        "keypoints": [len(database.read_keypoints(i)) for i in ids],
        "first_keypoint": [float(v) for v in np.asarray(database.read_keypoints(last))[0][:2]],
        "descriptors": [len(np.asarray(getattr(d, "data", d))) for d in (database.read_descriptors(i) for i in ids)],
        "first_match": [int(v) for v in np.asarray(database.read_matches(first, first + 1))[0]],
    }
    geometry = database.read_two_view_geometry(first, first + 1)
    rigid = geometry.cam2_from_cam1
    out["first_inlier"] = [int(v) for v in np.asarray(geometry.inlier_matches)[0]]
    out["config"] = int(geometry.config)
    out["translation"] = [float(v) for v in np.asarray(rigid.translation)]
    out["f"] = [float(v) for v in np.asarray(geometry.F).ravel()]
    database.close()
    return out


def centres(model):
    """Camera centres by image id."""
    found = {}
    for image in model.images.values():
        pose = image.cam_from_world() if callable(image.cam_from_world) else image.cam_from_world
        if getattr(image, "has_pose", True):
            matrix = np.asarray(pose.matrix())
            found[image.image_id] = -matrix[:, :3].T @ matrix[:, 3]
    return found


def rmse_after_similarity(source, target):
    """Umeyama 1991."""
    ms, mt = source.mean(0), target.mean(0)
    u, d, vt = np.linalg.svd((target - mt).T @ (source - ms) / len(source))
    sign = np.diag([1, 1, np.sign(np.linalg.det(u) * np.linalg.det(vt))])
    scale = np.trace(np.diag(d) @ sign) / ((source - ms) ** 2).sum(1).mean()
    error = (scale * (u @ sign @ vt @ (source - ms).T)).T + mt - target
    return float(np.sqrt((error**2).sum(1).mean()))


def mapped(database, mapper, truth):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "database.db"
        shutil.copy(database, copy)
        models = mapper(copy, folder, folder)
    if not models:
        return {"registered": 0}
    best = max(models.values(), key=lambda model: len(centres(model)))
    found = centres(best)
    ids = sorted(found)
    rmse = rmse_after_similarity(np.array([found[i] for i in ids]), truth[[i - 1 for i in ids]])
    return {"registered": len(found), "points": len(best.points3D), "rmse": rmse,
            "reprojection_px": float(best.compute_mean_reprojection_error())}


def main():
    database = pathlib.Path(sys.argv[1])
    truth = np.array([[float(v) for v in centre.split(",")] for centre in sys.argv[2:]])
    pycolmap.logging.minloglevel = 2
    if hasattr(pycolmap, "set_random_seed"):
        pycolmap.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "database.db"
        shutil.copy(database, copy)
        out = {"version": pycolmap.__version__} | contents(copy)
    options = pycolmap.IncrementalPipelineOptions()
    options.ba_refine_focal_length = options.ba_refine_extra_params = False
    out["incremental"] = mapped(database, lambda *where: pycolmap.incremental_mapping(*where, options), truth)
    if hasattr(pycolmap, "global_mapping"):
        out["global"] = mapped(database, lambda *where: pycolmap.global_mapping(*where), truth)
    print(json.dumps(out))


main()
