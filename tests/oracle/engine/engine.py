"""Calls the engine_dump tool."""

import json
import os
import pathlib
import subprocess

from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOL = pathlib.Path(os.environ.get("ACCEL_BIN_DIR", ROOT / "build" / "bin")) / "engine_dump"


def dump(folder, job, command, *options):
    """Runs the tool on a JobSpec given as a dict; returns the tensors that it writes."""
    job_file, output = folder / "job.json", folder / "output.safetensors"
    job_file.write_text(json.dumps(job))
    output.unlink(missing_ok=True)
    arguments = [TOOL, "--job", job_file, "--output", output, command, *options]
    subprocess.run([str(a) for a in arguments], check=True, timeout=120)
    return load_file(output)


def dump_model(folder, job, features, targets):
    input_file = folder / "input.safetensors"
    save_file({"input": features, "targets": targets}, input_file)
    return dump(folder, job, "model", "--input", input_file)


def dump_batches(folder, job, *options):
    """{(epoch, batch): {"features", "targets", "valid"}} of data files in `folder` (root `data`)."""
    batches = {}
    for name, tensor in dump(folder, job, "batches", "--root", "data", folder, *options).items():
        epoch, batch, part = name.split(".")
        batches.setdefault((int(epoch), int(batch)), {})[part] = tensor
    return dict(sorted(batches.items()))
