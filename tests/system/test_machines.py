"""One job on several machines: two daemons in two network namespaces, joined by a cable."""

import copy
import os
import shutil
import signal
import subprocess

import pytest
import yaml

from conftest import Daemon, blobs_spec, process_table, wait_for

NETWORK = "10.77.0.0/24"
ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 29511


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


@pytest.fixture(scope="module")
def namespaces():
    """Two network namespaces with an address each."""
    if shutil.which("ip") is None:
        pytest.skip("no ip: install iproute2")
    names = [f"accel-{os.getpid()}-{machine}" for machine in (0, 1)]
    made = ip("netns", "add", names[0])
    if made.returncode != 0:
        pytest.skip(f"network namespaces need root: {made.stderr.strip()}")
    try:
        for arguments in (
            ("netns", "add", names[1]),
            ("-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1]),
            *(("-n", name, "link", "set", device, "up") for name in names for device in ("lo", "cable")),
            *(("-n", name, "address", "add", f"{address}/24", "dev", "cable")
              for name, address in zip(names, ADDRESSES)),
        ):
            done = ip(*arguments)
            assert done.returncode == 0, (arguments, done.stderr)
        yield names
    finally:
        for name in names:
            ip("netns", "delete", name)


@pytest.fixture(scope="module")
def machines(namespaces, tmp_path_factory, data_root):
    daemons = []
    for name in namespaces:
        state_dir = tmp_path_factory.mktemp("machine") / "state"
        state_dir.mkdir(mode=0o700)
        daemons.append(Daemon(state_dir, data_root, "--rendezvous_network", NETWORK,
                              inside=("nsenter", f"--net=/run/netns/{name}")).start())
    yield daemons
    for daemon in daemons:
        daemon.close()


def part(spec, machine):
    """`spec` as machine 0 or 1 of two gets it."""
    spec = copy.deepcopy(spec)
    spec["multi_node"] = {"num_machines": 2, "machine_rank": machine, "main_process_ip": ADDRESSES[0],
                          "main_process_port": PORT}
    return spec


def submit(machines, spec, job_id):
    for machine, daemon in enumerate(machines):
        daemon.submit(part(spec, machine), job_id)
    return job_id


def rows(daemon, job_id):
    """Step and value of each loss, as printed."""
    lines = daemon.accelctl("metrics", "--csv", "--key", "train/loss", "--key", "eval/loss", job_id).stdout
    return [line.split(",")[2:] for line in lines.splitlines()[1:]]


def events(daemon, api, job_id):
    import grpc

    with grpc.insecure_channel(daemon.socket_address) as channel:
        stub = api.TelemetryServiceStub(channel)
        return [event for answer in stub.StreamEvents(api.StreamEventsRequest(name=f"jobs/{job_id}"))
                for event in answer.batch.records]


def files(daemon, job_id):
    """Files of the job's last checkpoint, by name."""
    folders = sorted((daemon.job_dir(job_id) / "checkpoints").iterdir(), key=lambda f: int(f.name))
    return {file.name: file for file in folders[-1].iterdir()}


def test_two_machines_of_one_rank_are_one_machine_of_two(machines, api):
    spec = blobs_spec(ranks=2, epochs=3)
    submit(machines, spec, "pair")
    for machine, daemon in enumerate(machines):
        job = daemon.wait_state("pair", "SUCCEEDED")
        assert [worker.get("rank", 0) for worker in job["attempts"][0]["workers"]] == [machine]
    machines[0].submit(spec, "alone")
    machines[0].wait_state("alone", "SUCCEEDED")

    # Exact: the same kernels in the same order, and a sum of two does not depend on it.
    assert rows(machines[0], "pair") == rows(machines[0], "alone")
    assert len(rows(machines[0], "pair")) > 3 * 8
    together, alone = files(machines[0], "pair"), files(machines[0], "alone")
    assert together["model.safetensors"].read_bytes() == alone["model.safetensors"].read_bytes()

    # Each machine has the states of its own ranks; the model is the main process's.
    assert "random_states_0.safetensors" in together and "random_states_1.safetensors" not in together
    assert set(files(machines[1], "pair")) == {"random_states_1.safetensors", "manifest.json"}
    # Metrics are where rank 0 is, and the other record says so.
    assert rows(machines[1], "pair") == []
    assert any(f"machine 0, at {ADDRESSES[0]} port {PORT}" in e.message for e in events(machines[1], api, "pair"))
    group = next(e.process_group for e in events(machines[0], api, "pair") if e.HasField("process_group"))
    assert dict(group.backends) == {"cpu": "gloo", "cuda": "gloo"} and group.world_size == 2
    assert group.store.startswith(f"{ADDRESSES[0]}:")
    shown = machines[1].accelctl("get", "pair").stdout
    assert "1 of 2" in shown


def test_a_checkpoint_of_each_machine_is_resumed(machines):
    spec = blobs_spec(ranks=2, epochs=2)
    spec["accelerator"] = {"project_config": {"save_on_each_node": True}}
    whole = copy.deepcopy(spec)
    submit(machines, whole, "whole")
    submit(machines, {**spec, "loop": {**spec["loop"], "max_steps": 8, "num_epochs": 2}}, "half")
    for daemon in machines:
        for job_id in ("whole", "half"):
            daemon.wait_state(job_id, "SUCCEEDED")
    models = [files(daemon, "half")["model.safetensors"].read_bytes() for daemon in machines]
    assert models[0] == models[1]
    for machine, daemon in enumerate(machines):
        last = daemon.json("checkpoints", "half")["checkpoints"][-1]["name"]
        daemon.submit(part({**whole, "resume_from": last}, machine), "rest")
    for daemon in machines:
        daemon.wait_state("rest", "SUCCEEDED")
    for daemon in machines:
        assert (files(daemon, "rest")["model.safetensors"].read_bytes()
                == files(daemon, "whole")["model.safetensors"].read_bytes())


def test_a_cancel_on_one_machine_ends_both_at_one_step(machines):
    submit(machines, blobs_spec(ranks=2, epochs=1000000), "endless")
    machines[0].wait_step("endless", 5)
    machines[1].accelctl("cancel", "endless")
    jobs = [daemon.wait_state("endless", "CANCELLED", seconds=60) for daemon in machines]
    assert jobs[0]["progress"]["step"] == jobs[1]["progress"]["step"]


def test_a_rank_that_dies_is_the_cause_on_both(machines):
    submit(machines, blobs_spec(ranks=2, epochs=1000000), "killed")
    machines[0].wait_step("killed", 5)
    pid = int(machines[1].job("killed")["attempts"][0]["workers"][0]["pid"])
    os.kill(pid, signal.SIGKILL)
    for daemon in machines:
        failure = daemon.wait_state("killed", "FAILED", seconds=60)["failure"]
        assert failure["cause"] == "SIGNAL" and failure["message"].startswith("rank 1 exited on signal 9 at step")


def test_a_machine_that_is_lost_ends_the_other(machines):
    submit(machines, blobs_spec(ranks=2, epochs=1000000), "lost")
    machines[0].wait_step("lost", 5)
    folder = str(machines[1].job_dir("lost"))
    os.kill(next(pid for pid, _, command in process_table() if "accel-supervisor" in command and folder in command),
            signal.SIGKILL)
    failure = machines[0].wait_state("lost", "FAILED", seconds=60)["failure"]
    assert failure["cause"] == "MACHINE"
    assert f"machine 1 at {ADDRESSES[1]} was lost" in failure["message"]
    assert machines[1].wait_state("lost", "FAILED", seconds=60)["failure"]["cause"] == "SUPERVISOR"


def with_timeout(spec, seconds):
    return {**spec, "accelerator": {"init_process_group_kwargs": {"timeout": seconds}}}


def test_a_machine_that_never_comes(machines):
    spec = with_timeout(blobs_spec(ranks=2), 1)
    for machine, text in ((0, "machine 1 of 2 did not come to 10.77.0.1 port 29511 within 1s"),
                          (1, "machine 0 was not found at 10.77.0.1 port 29511 within 1s")):
        machines[machine].submit(part(spec, machine), "waiting")
        failure = machines[machine].wait_state("waiting", "FAILED", seconds=30)["failure"]
        assert failure["cause"] == "MACHINE" and text in failure["message"], failure


def test_a_machine_with_another_job_is_refused(machines):
    spec = with_timeout(blobs_spec(ranks=2), 5)
    machines[0].submit(part(spec, 0), "other")
    spec["data"] = {**spec["data"], "batch_size": 11}
    machines[1].submit(part(spec, 1), "other")
    refused = machines[1].wait_state("other", "FAILED", seconds=30)["failure"]
    assert "refused this machine: its job is another" in refused["message"]
    assert "batch_size" in refused["message"]
    assert "did not come" in machines[0].wait_state("other", "FAILED", seconds=30)["failure"]["message"]


def test_a_stop_before_the_others_come(machines):
    machines[0].submit(part(blobs_spec(ranks=2), 0), "early")
    wait_for(lambda: machines[0].job("early")["state"] == "STARTING", "it waits")
    machines[0].accelctl("cancel", "early")
    machines[0].wait_state("early", "CANCELLED", seconds=30)


def test_an_address_that_the_operator_does_not_allow(daemon):
    refused = daemon.accelctl("validate", "-", input=yaml.safe_dump(part(blobs_spec(ranks=2), 1)), check=False)
    assert refused.returncode == 2
    assert "multi_node.main_process_ip" in refused.stderr and "--rendezvous_network" in refused.stderr
