"""Calls the engine_dump tool."""

import json
import os
import pathlib
import subprocess

from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = pathlib.Path(os.environ.get("ACCEL_BIN_DIR", ROOT / "build" / "bin")) / "engine_dump"


def dump(folder, jobs, command, *options):
    """Runs the tool on JobSpecs given as dicts; returns the tensors that it writes."""
    output = folder / "output.safetensors"
    output.unlink(missing_ok=True)
    arguments = [TOOL, "--output", output]
    for i, job in enumerate(jobs):
        file = folder / f"job{i}.json"
        file.write_text(json.dumps(job))
        arguments += ["--job", file]
    subprocess.run([str(a) for a in [*arguments, command, *options]], check=True, timeout=120)
    return load_file(output)


def dump_model(folder, job, features, targets):
    input_file = folder / "input.safetensors"
    save_file({"input": features, "targets": targets}, input_file)
    return dump(folder, [job], "model", "--input", input_file)


def dump_all_batches(folder, jobs, *options):
    """{(job, rank): {(epoch, batch): {"features", "targets", "valid"}}}; `folder` is the data root `data`."""
    batches = {}
    for name, tensor in dump(folder, jobs, "batches", "--root", "data", folder, *options).items():
        job, rank, epoch, batch, part = name.split(".")
        of_rank = batches.setdefault((int(job), int(rank)), {})
        of_rank.setdefault((int(epoch), int(batch)), {})[part] = tensor
    return {key: dict(sorted(of_rank.items())) for key, of_rank in batches.items()}


def dump_batches(folder, job, *options):
    """The same for one job and rank 0."""
    return dump_all_batches(folder, [job], *options)[0, 0]
