"""TensorBoard files and Prometheus, read by the real programs; dashboards name only what exists."""

import json
import math
import os
import pathlib
import re
import subprocess
import urllib.request

import pytest
import yaml

from conftest import ROOT, blobs_spec, wait_for

PROMETHEUS = ROOT / "build/tools/usr/bin/prometheus"
PROMTOOL = ROOT / "build/tools/usr/bin/promtool"
METRIC = re.compile(r"\baccel_[a-z0-9_]+")


def exposed(daemon):
    with urllib.request.urlopen(daemon.metrics_url, timeout=10) as answer:
        return answer.read().decode()


def values(text, name):
    return {labels: float(value) for labels, value in
            re.findall(rf"^{name}(?:{{(.*?)}})? (\S+)$", text, re.MULTILINE)}


@pytest.fixture(scope="module")
def tracked(daemon):
    spec = blobs_spec(epochs=5, clipping={"max_norm": 1.0}, checkpoint_every_steps=10)
    spec["tracking"] = {"project": "blobs", "config": {"note": "hello"}, "trackers": [{"tensorboard": {}}]}
    daemon.submit(spec, "tracked")
    daemon.wait_state("tracked", "SUCCEEDED")
    return "tracked"


def metric_rows(daemon, job):
    rows = {}
    for line in daemon.accelctl("metrics", "--csv", job).stdout.splitlines()[1:]:
        _, _, step, _, key, value = line.split(",")
        rows.setdefault(key, []).append((int(step), float(value)))
    return rows


def test_tensorboard_reads_every_value(daemon, tracked):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    folder = daemon.job_dir(tracked) / "trackers/tensorboard/blobs"
    run = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    run.Reload()
    rows = metric_rows(daemon, tracked)
    assert set(run.Tags()["scalars"]) == set(rows)
    for key, expected in rows.items():
        got = [(e.step, e.value) for e in run.Scalars(key)]
        assert [s for s, _ in got] == [s for s, _ in expected]
        assert all(math.isclose(g, e, rel_tol=1e-6, abs_tol=1e-30) for (_, g), (_, e) in zip(got, expected))
    contents = run.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    hparams = plugin_data_pb2.HParamsPluginData.FromString(contents).session_start_info.hparams
    assert hparams["note"].string_value == "hello"
    assert any(key.endswith("lr") and value.number_value == 0.01 for key, value in hparams.items())
    written = yaml.safe_load(next(folder.rglob("hparams.yml")).read_text())
    assert written["note"] == "hello"


def test_metrics_of_jobs(daemon, tracked):
    def all_counted():
        text = exposed(daemon)
        succeeded = sum(v for k, v in values(text, "accel_jobs").items() if "SUCCEEDED" in k.upper())
        return text if succeeded >= 1 and 'accel_steps_total{job="tracked"} 40' in text else None

    text = wait_for(all_counted, "the job and all its steps are counted", 10)
    assert values(text, "accel_step_duration_seconds_count")['job="tracked"'] == 40


def test_real_prometheus_scrapes(daemon, tracked, tmp_path):
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    target = daemon.info["metrics_address"]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
    config["global"]["scrape_interval"] = "1s"
    config.pop("rule_files", None)
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    log = open(tmp_path / "prometheus.log", "wb")
    server = subprocess.Popen(
        [PROMETHEUS, f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
         "--web.listen-address=127.0.0.1:0"], stdout=log, stderr=log)
    try:
        def address():
            assert server.poll() is None
            found = re.search(r"address=(?:\[::\]:|127\.0\.0\.1:)([1-9]\d*)", (tmp_path / "prometheus.log").read_text())
            return found and f"http://127.0.0.1:{found.group(1)}"

        base = wait_for(address, "prometheus listens", 30)

        def query(expression):
            url = f"{base}/api/v1/query?query={urllib.request.quote(expression)}"
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return json.load(answer)["data"]["result"]
            except OSError:
                return None

        [up] = wait_for(lambda: [r for r in query("up") or [] if r["value"][1] == "1"], "target is up", 30)
        assert up["metric"]["instance"] == target
        [steps] = wait_for(lambda: query('accel_steps_total{job="tracked"}') or query(
            'accel_steps_total{exported_job="tracked"}'), "steps are stored", 30)
        assert steps["value"][1] == "40"
    finally:
        server.terminate()
        server.wait(timeout=30)
        log.close()


def named_in_files():
    for path in sorted((ROOT / "deploy/grafana").rglob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                yield path.name, target["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                yield path.name, json.dumps(variable["query"])
    for path in sorted((ROOT / "deploy/prometheus").glob("*rules.yml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield path.name, rule["expr"]


def test_dashboards_and_rules_name_only_metrics_that_exist(daemon, tracked):
    wait_for(lambda: 'job="tracked"' in exposed(daemon), "the job is exposed", 10)
    text = exposed(daemon)
    families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    names = {name for name, kind in families.items() if kind != "histogram"}
    for name, kind in families.items():
        if kind == "histogram":
            names |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    found = [(where, metric) for where, expression in named_in_files() for metric in METRIC.findall(expression)]
    assert len(found) > 15
    missing = {(where, metric) for where, metric in found if metric not in names}
    assert not missing


def test_names_follow_prometheus_rules(daemon, tracked):
    result = subprocess.run([PROMTOOL, "check", "metrics"], input=exposed(daemon), capture_output=True, text=True,
                            timeout=30)
    ours = [line for line in (result.stdout + result.stderr).splitlines() if line.startswith("accel_")]
    assert not ours


def test_prometheus_files_are_valid():
    for command in (["check", "config", "prometheus.yml"], ["check", "rules", "rules.yml"],
                    ["test", "rules", "rules_test.yml"]):
        result = subprocess.run([PROMTOOL, *command], cwd=ROOT / "deploy/prometheus", capture_output=True, text=True,
                                timeout=60)
        assert result.returncode == 0, result.stdout + result.stderr
