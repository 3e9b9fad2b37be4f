"""What a tracker's own package reads: read.py mlflow URL | trackio DIR [--import] | wandb FILE SERVER_URL KEY. JSON."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def mlflow(url):
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=url)
    runs = []
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id]):
            history = {key: [[m.step, m.value, m.timestamp] for m in client.get_metric_history(run.info.run_id, key)]
                       for key in run.data.metrics}
            runs.append({"experiment": experiment.name, "experiment_tags": experiment.tags, "name": run.info.run_name,
                         "status": run.info.status, "params": run.data.params, "tags": run.data.tags,
                         "metrics": history})
    return runs


def trackio(folder, *flags):
    os.environ["TRACKIO_DIR"] = folder
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    if "--import" in flags:
        from trackio import fragments

        fragments.import_inbox_dir()
    return [{"project": project, "name": run.name, "id": run.id, "config": run.config,
             "logs": SQLiteStorage.get_logs(project, run.name, run_id=run.id)}
            for project in SQLiteStorage.get_projects() for run in trackio.Api().runs(project)]


def wandb(path, server_url, key):
    """Uploads a copy with the package's own command; the server then knows what was read."""
    path = pathlib.Path(path)
    with tempfile.TemporaryDirectory() as home:
        copy = pathlib.Path(home) / "wandb" / path.parent.name
        shutil.copytree(path.parent, copy)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_")}
        for name in ("HOME", "WANDB_DIR", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
            environment[name] = home
        environment.update(WANDB_BASE_URL=server_url, WANDB_API_KEY=key, WANDB_ERROR_REPORTING="false", NO_COLOR="1")
        result = subprocess.run(
            [sys.executable, "-m", "wandb", "sync", "--include-online", copy / path.name],
            env=environment, cwd=home, capture_output=True, text=True, timeout=120)
        marked = (copy / (path.name + ".synced")).exists()
    return {"marked": marked, "output": result.stdout + result.stderr}


print(json.dumps({"mlflow": mlflow, "trackio": trackio, "wandb": wandb}[sys.argv[1]](*sys.argv[2:])))
