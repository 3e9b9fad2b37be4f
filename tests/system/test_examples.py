"""The shipped examples do what they promise, on real data."""

import collections
import math

import yaml

from conftest import DATASETS, ROOT


def last(daemon, job, key):
    rows = daemon.accelctl("metrics", "--csv", "--key", key, job).stdout.splitlines()[1:]
    return float(rows[-1].split(",")[5])


def test_mnist_reaches_95_percent(daemon):
    file = ROOT / "deploy/examples/mnist.yaml"
    daemon.accelctl("run", file, "--id", "mnist", timeout=600)
    assert last(daemon, "mnist", "eval/samples") == 1000
    assert last(daemon, "mnist", "eval/accuracy") >= 0.95


def test_text_falls_well_below_the_unigram_entropy(daemon):
    file = ROOT / "deploy/examples/text.yaml"
    data = (DATASETS / yaml.safe_load(file.read_text())["data"]["train"]["file"].split("/", 1)[1]).read_bytes()
    counts = collections.Counter(data)
    entropy = -sum(n / len(data) * math.log(n / len(data)) for n in counts.values())
    daemon.accelctl("run", file, "--id", "text", timeout=900)
    assert last(daemon, "text", "eval/loss") < 0.8 * entropy
