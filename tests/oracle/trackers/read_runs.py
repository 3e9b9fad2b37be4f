"""What a tracker's own package reads, as JSON:

read_runs.py swanlab RUN_FOLDER URL KEY    its reader's records; `swanlab sync` to URL
read_runs.py comet ARCHIVE URL KEY         uploads an archive as `comet upload` does
read_runs.py clearml-session ZIP URL KEYS  imports a session into the server at URL and reads the task back
read_runs.py clearml-task ID URL KEYS      reads a task back
read_runs.py aim REPO                      every run of a repository
read_runs.py dvclive FOLDER                its own readers of files; `dvc` reads the folder's dvc.yaml
"""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def swanlab(folder, url, key):
    from google.protobuf.json_format import MessageToDict
    from swanlab.proto.swanlab.record.v1.record_pb2 import Record
    from swanlab.sdk.internal.core_python.store import DataStoreReader

    folder = pathlib.Path(folder)
    result = {"scalars": {}, "start": None, "finish": None, "config": None}
    reader = DataStoreReader()
    reader.open(str(next(folder.glob("run-*.swanlab"))))
    while (data := reader.scan()) is not None:
        record = Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "scalar":
            result["scalars"].setdefault(record.scalar.key, []).append(
                [record.scalar.step, plain(record.scalar.value.number)])
        elif kind == "save" and record.save.type == 1:
            import yaml

            text = record.save.payload.decode() if record.save.payload else (folder / "files/config.yaml").read_text()
            result["config"] = {k: v["value"] for k, v in yaml.safe_load(text).items()}
        elif kind in ("start", "finish"):
            result[kind] = MessageToDict(getattr(record, kind), preserving_proto_field_name=True)
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "SWANLAB_API_KEY": key, "SWANLAB_API_HOST": url, "SWANLAB_ROOT": home}
        code = "import sys; from swanlab.cli import cli; sys.argv[0] = 'swanlab'; cli()"
        done = subprocess.run([sys.executable, "-c", code, "sync", folder.absolute()], env=environment, cwd=home,
                              capture_output=True, text=True, timeout=120)
        result["sync"] = {"status": done.returncode, "output": done.stdout + done.stderr}
    return result


def comet(archive, url, key):
    os.environ.update(COMET_URL_OVERRIDE=url, COMET_API_KEY=key, COMET_ERROR_TRACKING_ENABLE="0",
                      COMET_DISABLE_ANNOUNCEMENT="1")
    from comet_ml import offline

    sender = offline.OfflineSender(api_key=key, offline_dir=offline.unzip_offline_archive(archive), force_upload=False)
    sender.send()
    sender.close()
    return sender.metadata


def clearml(task_id, url, keys, session=None):
    access, _, secret = keys.partition(":")
    home = tempfile.mkdtemp()
    os.environ.update(CLEARML_API_HOST=url, CLEARML_WEB_HOST=url, CLEARML_FILES_HOST=url, CLEARML_CONFIG_FILE=os.devnull,
                      CLEARML_API_ACCESS_KEY=access, CLEARML_API_SECRET_KEY=secret, CLEARML_CACHE_DIR=home)
    from clearml import Task

    task_id = task_id or Task.import_offline_session(session)
    task = Task.get_task(task_id=task_id)
    shutil.rmtree(home, ignore_errors=True)
    return {"id": task.id, "name": task.name, "project": task.get_project_name(), "status": str(task.get_status()),
            "tags": list(task.get_tags() or []), "comment": task.comment,
            "config": task.get_configuration_object_as_dict("General"), "scalars": task.get_reported_scalars()}


def aim(source):
    os.environ["AIM_UI_TELEMETRY_ENABLED"] = "0"
    from aim import Repo
    from aim.sdk.index_manager import RepoIndexManager

    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(pathlib.Path(source) / ".aim", pathlib.Path(copy) / ".aim")
        repo = Repo(copy)
        # Neither the server nor its client puts a run into the index, `aim up` does.
        indexer = RepoIndexManager.get_index_manager(repo)
        hashes = list(repo.list_all_runs())
        for run_hash in hashes:
            indexer.index(run_hash)
        repo.container_pool.clear()
        runs = []
        for run_hash in hashes:
            run = repo.get_run(run_hash)
            traces = run.meta_run_tree.collect().get("traces", {})
            metrics = {}
            for metric in run.metrics():
                steps, (values, *_) = metric.data.items_list()
                metrics[metric.name] = [[int(s), float(v)] for s, v in zip(steps, values)]
            runs.append({"hash": run.hash, "name": run.name, "experiment": run.experiment, "active": run.active,
                         "end_time": run.end_time, "hparams": run.get("hparams"), "metrics": metrics,
                         "traces": {name: info for context in traces.values() for name, info in context.items()}})
        return runs


def dvclive(folder):
    from dvc.repo import Repo
    from dvclive.serialize import load_yaml
    from dvclive.utils import parse_tsv

    folder = pathlib.Path(folder)
    result = {"history": {}, "params": load_yaml(folder / "dvclive/params.yaml"),
              "summary": json.loads((folder / "dvclive/metrics.json").read_text())}
    metrics = folder / "dvclive/plots/metrics"
    for path in sorted(metrics.rglob("*.tsv")):
        result["history"][str(path.relative_to(metrics))[:-len(".tsv")]] = parse_tsv(path)
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        Repo.init(copy, no_scm=True)
        repo = Repo(copy)
        result["dvc"] = {"metrics": repo.metrics.show()[""]["data"], "plots": sorted(repo.plots.show(revs=["workspace"])[
            "workspace"]["sources"]["data"]), "params": repo.params.show()[""]["data"]}
    return result


KINDS = {"swanlab": swanlab, "comet": comet, "clearml-task": clearml, "aim": aim, "dvclive": dvclive,
         "clearml-session": lambda session, url, keys: clearml(None, url, keys, session)}
text = json.dumps(plain(KINDS[sys.argv[1]](*sys.argv[2:])), default=str)
sys.stdout.flush()
print("\n" + text, flush=True)
# Packages leave threads behind that wait for what does not come.
os._exit(0)
