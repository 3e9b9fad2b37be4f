"""Every command of README.md does what it says, in the order of the page, and its links lead somewhere."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import BIN, ROOT, process_table

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
# A set-up is no part of a test, and a test that runs all tests never ends: they are run by name below.
SET_UP = {"deploy/quickstart", "tests/run"}

# The usual port may be taken on the machine that tests.
ANY_PORT = "--metrics-address 127.0.0.1:0"


def commands():
    return [line for block in BLOCKS for line in block.splitlines() if line and line not in SET_UP]


@pytest.fixture
def environment(tmp_path):
    state = tmp_path / "state"
    environment = {**os.environ, "ACCEL_STATE_DIR": str(state)}
    for name in ("ACCEL_ADDRESS", "XDG_STATE_HOME"):
        environment.pop(name, None)
    yield environment
    subprocess.run([BIN / "accelctl", "daemon", "stop"], env=environment, capture_output=True, timeout=60)


def run(command, environment, timeout=600):
    result = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=ROOT, env=environment, text=True,
                            stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    assert result.returncode == 0, (command, result.stdout[-2000:], result.stderr[-2000:])
    return result.stdout + result.stderr


def test_the_tour_from_start_to_stop(environment, tmp_path):
    said = {}
    for command in commands():
        runnable = command
        if "daemon start" in command:
            runnable += " " + ANY_PORT
        said[command] = run(runnable, environment)
    assert len(said) > 15
    for command, output in said.items():
        may_be_quiet = ">" in command or "accelctl logs" in command
        assert may_be_quiet or output.strip(), command
    csv = ROOT / "build/digits.csv"
    assert len(csv.read_text().splitlines()) > 100
    csv.unlink()
    part = next(output for command, output in said.items() if "part-1" in command)
    assert "part-1 SUCCEEDED" in part
    diff = next(output for command, output in said.items() if "kwargs diff" in command)
    assert '"bucket_cap_mb"' in diff and "find_unused_parameters" not in diff
    assert not [line for _, _, line in process_table() if str(tmp_path) in line]


def test_quickstart(environment, tmp_path):
    output = run("deploy/quickstart -- " + ANY_PORT, environment)
    assert re.search(r"step 504/504 .* accuracy 0\.9[5-9]", output)
    for line in re.findall(r"^  (?:checkpoints|TensorBoard) .* (/\S+)$", output, re.MULTILINE):
        assert pathlib.Path(line).is_dir() and any(pathlib.Path(line).iterdir())
    assert not [line for _, _, line in process_table() if str(tmp_path) in line]


def test_quickstart_refuses_an_unknown_example(environment):
    result = subprocess.run([ROOT / "deploy/quickstart", "--example", "nothing"], env=environment, text=True,
                            capture_output=True, timeout=60)
    assert result.returncode == 2
    assert 'no example "nothing"; there are: mnist text' in result.stderr


def test_scripts_say_how_they_are_used(environment):
    for script in ("deploy/bootstrap", "deploy/quickstart", "tests/run"):
        assert f"usage: {script}" in run(f"{script} --help", environment)


def test_links_lead_to_files():
    links = [link for page in (README, (ROOT / "core/README.md").read_text())
             for link in re.findall(r"\]\(([^)#]+)\)", page)]
    assert links
    for link in links:
        assert (ROOT / link).exists() or (ROOT / "core" / link).exists(), link
