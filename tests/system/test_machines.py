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
    common = tmp_path_factory.mktemp("common")
    for name in namespaces:
        state_dir = tmp_path_factory.mktemp("machine") / "state"
        state_dir.mkdir(mode=0o700)
        daemons.append(Daemon(state_dir, data_root, "--rendezvous_network", NETWORK, "--rendezvous_root", common,
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
    # One after the other: both wait at the same port.
    for job, job_id in ((whole, "whole"), ({**spec, "loop": {**spec["loop"], "max_steps": 8}}, "half")):
        submit(machines, job, job_id)
        for daemon in machines:
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


def test_checkpoints_of_two_steps_are_no_start(machines):
    spec = blobs_spec(ranks=2, epochs=2, checkpoint_every_steps=4)
    spec["accelerator"] = {"project_config": {"save_on_each_node": True}}
    submit(machines, spec, "source")
    for daemon in machines:
        daemon.wait_state("source", "SUCCEEDED")
    names = [entry["name"] for entry in machines[0].json("checkpoints", "source")["checkpoints"]]
    for machine, daemon in enumerate(machines):
        daemon.submit(part({**spec, "resume_from": sorted(names)[machine]}, machine), "uneven")
    for daemon in machines:
        failure = daemon.wait_state("uneven", "FAILED", seconds=60)["failure"]
        assert failure["cause"] == "JOB" and "those of all machines are at steps" in failure["message"], failure


@pytest.mark.parametrize("method, where", [
    ("env://", ADDRESSES[0] + ":"), (f"tcp://{ADDRESSES[0]}:0", ADDRESSES[0] + ":"), ("file:///meet", "/meet")])
def test_init_methods(machines, api, method, where):
    spec = blobs_spec(ranks=2, epochs=1)
    spec["accelerator"] = {"init_process_group_kwargs": {"init_method": method, "timeout": 60}}
    job_id = submit(machines, spec, method.split(":")[0] + "-method")
    for daemon in machines:
        daemon.wait_state(job_id, "SUCCEEDED", seconds=60)
    group = next(e.process_group for e in events(machines[0], api, job_id) if e.HasField("process_group"))
    assert where in group.store and group.timeout_seconds == 60


def test_lack_of_memory_on_both_starts_all_anew(machines):
    from test_process_group import wide

    submit(machines, wide(1 << 20, 64, 640 << 20, reduce_factor=0.25), "search")
    jobs = [daemon.wait_state("search", "SUCCEEDED") for daemon in machines]
    sizes = [[attempt["batch_size"] for attempt in job["attempts"]] for job in jobs]
    assert sizes[0] == sizes[1] and len(sizes[0]) > 1


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


def pids_of(daemon, job_id):
    """The job's supervisor and its workers on that machine."""
    folder = str(daemon.job_dir(job_id))
    supervisor = next(pid for pid, _, command in process_table() if "accel-supervisor" in command and folder in command)
    return supervisor, [pid for pid, parent, _ in process_table() if parent == supervisor]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_supervisor_that_is_killed_ends_the_other(machines, lost):
    job_id = submit(machines, blobs_spec(ranks=2, epochs=1000000), f"lost-{lost}")
    machines[0].wait_step(job_id, 5)
    everything = [pid for daemon in machines for pid in pids_of(daemon, job_id)[1]]
    os.kill(pids_of(machines[lost], job_id)[0], signal.SIGKILL)
    failure = machines[1 - lost].wait_state(job_id, "FAILED", seconds=60)["failure"]
    assert failure["cause"] == "MACHINE"
    assert f"machine {lost} at {ADDRESSES[lost]}" in failure["message"] and "was lost" in failure["message"]
    assert machines[lost].wait_state(job_id, "FAILED", seconds=60)["failure"]["cause"] == "SUPERVISOR"
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in everything), "no worker is left", 10)


@pytest.mark.parametrize("killed", [0, 1])
def test_a_daemon_that_is_killed_takes_the_job_over_again(machines, killed):
    job_id = submit(machines, blobs_spec(ranks=2, epochs=300), f"adopted-{killed}")
    machines[0].wait_step(job_id, 5)
    machines[killed].kill()
    machines[killed].start()
    for daemon in machines:
        assert len(daemon.wait_state(job_id, "SUCCEEDED")["attempts"]) == 1
    losses = machines[0].accelctl("metrics", "--csv", "--key", "train/loss", job_id).stdout.splitlines()[1:]
    assert [int(line.split(",")[2]) for line in losses] == list(range(1, 300 * 8 + 1))


def test_a_machine_that_is_killed_ends_the_other(machines):
    """Daemon, supervisor and worker of a machine at once."""
    submit(machines, blobs_spec(ranks=2, epochs=1000000), "dead")
    machines[0].wait_step("dead", 5)
    supervisor, workers = pids_of(machines[1], "dead")
    for pid in (supervisor, *workers):
        os.kill(pid, signal.SIGKILL)
    machines[1].kill()
    failure = machines[0].wait_state("dead", "FAILED", seconds=60)["failure"]
    # The supervisor may have seen its worker's end before its own came.
    assert failure["cause"] in ("MACHINE", "SIGNAL"), failure
    assert "machine 1" in failure["message"] or "rank 1" in failure["message"]
    machines[1].start()
    assert machines[1].wait_state("dead", "FAILED", seconds=30)["failure"]["cause"] == "SUPERVISOR"


def test_a_cable_that_is_cut_is_noticed_on_both_ends(machines, namespaces):
    submit(machines, blobs_spec(ranks=2, epochs=1000000), "cut")
    machines[0].wait_step("cut", 5)
    assert ip("-n", namespaces[1], "link", "set", "cable", "down").returncode == 0
    try:
        # Half a minute of silence.
        for machine, daemon in enumerate(machines):
            failure = daemon.wait_state("cut", "FAILED", seconds=60)["failure"]
            assert failure["cause"] == "MACHINE", failure
            assert f"machine {1 - machine} at" in failure["message"] and "was lost" in failure["message"]
    finally:
        assert ip("-n", namespaces[1], "link", "set", "cable", "up").returncode == 0


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
