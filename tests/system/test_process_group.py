"""Where the ranks meet, how long they wait for one another, and what becomes of a lack of memory."""

import os
import signal
import time

import pytest
import yaml

from conftest import blobs_spec


def with_group(spec, **kwargs):
    return {**spec, "accelerator": {"init_process_group_kwargs": kwargs}}


def group_event(api, channel, job_id):
    stub = api.TelemetryServiceStub(channel)
    for answer in stub.StreamEvents(api.StreamEventsRequest(name=f"jobs/{job_id}")):
        for event in answer.batch.records:
            if event.HasField("process_group"):
                return event
    raise AssertionError("no event of the process group")


@pytest.mark.parametrize("method, where", [
    ("env://", "127.0.0.1:"), ("tcp://127.0.0.1:0", "127.0.0.1:"), ("file:///team/meet", "/rendezvous/team/meet")])
def test_init_methods(daemon, api, channel, method, where):
    job_id = daemon.submit(with_group(blobs_spec(epochs=1), init_method=method, backend="cpu:gloo", timeout=30),
                           method[:3].strip(":") + "-method")
    daemon.wait_state(job_id, "SUCCEEDED")
    event = group_event(api, channel, job_id)
    assert dict(event.process_group.backends) == {"cpu": "gloo"}
    assert event.process_group.init_method == method and where in event.process_group.store
    assert event.process_group.timeout_seconds == 30
    assert event.message.startswith("process group of 2 ranks: cpu by gloo, store ")
    assert not (daemon.state_dir / "rendezvous/team/meet").exists()


def test_a_file_that_is_left_over_is_refused(daemon):
    file = daemon.state_dir / "rendezvous/left"
    file.parent.mkdir(exist_ok=True)
    file.touch()
    daemon.submit(with_group(blobs_spec(epochs=1), init_method="file:///left"), "left-over")
    message = daemon.wait_state("left-over", "FAILED")["failure"]["message"]
    assert "rendezvous/left exists" in message
    assert file.exists()


def test_the_timeout_ends_a_collective_whose_peer_stalls(daemon):
    daemon.submit(with_group(blobs_spec(epochs=1000000), timeout=2), "stalled")
    daemon.wait_step("stalled", 5)
    stalled = int(daemon.job("stalled")["attempts"][0]["workers"][1]["pid"])
    start = time.monotonic()
    os.kill(stalled, signal.SIGSTOP)
    failure = daemon.wait_state("stalled", "FAILED", seconds=60)["failure"]
    # The timeout, then the grace in which the stopped rank might end by itself.
    assert 2 <= time.monotonic() - start < 20
    assert failure["cause"] == "COLLECTIVE"
    message = failure["message"]
    assert message.startswith("rank 0 failed at step") and "all-reduce number" in message
    assert "timeout 2s" in message and "no word from rank 1" in message
    assert not os.path.exists(f"/proc/{stalled}")


def wide(width, batch_size, limit, **search):
    """A job whose activations, 4 bytes * width for each sample, outgrow a limit of memory."""
    spec = blobs_spec(epochs=1)
    spec["model"] = {"mlp": {"layer_sizes": [8, width, 3]}}
    spec["optimizer"] = {"sgd": {"lr": 0.0001}}
    spec["data"]["batch_size"] = batch_size
    spec["loop"]["max_steps"] = 2
    spec["loop"]["checkpoint_at_end"] = False
    spec["loop"]["find_executable_batch_size"] = search
    spec["memory_limit_bytes"] = limit
    return spec


def test_lack_of_memory_starts_all_ranks_with_a_smaller_batch(daemon):
    spec = wide(1 << 20, 64, 640 << 20, reduce_factor=0.5)
    daemon.submit(spec, "search")
    job = daemon.wait_state("search", "SUCCEEDED")
    sizes = [attempt["batch_size"] for attempt in job["attempts"]]
    assert sizes == [64, 32, 16, 8][:len(sizes)] and len(sizes) > 1
    for attempt in job["attempts"][:-1]:
        assert attempt["failure"]["cause"] == "OUT_OF_MEMORY", attempt
        assert len(attempt["workers"]) == 2 and attempt["end_time"]
    assert "failure" not in job["attempts"][-1]
    shown = daemon.accelctl("get", "search").stdout
    assert f"batch size  {sizes[-1]}" in shown.replace("batch size   ", "batch size  ")
    del spec["loop"]["find_executable_batch_size"]
    daemon.submit(spec, "no-search")
    assert daemon.wait_state("no-search", "FAILED")["failure"]["cause"] == "OUT_OF_MEMORY"


def test_a_search_that_never_fits_says_so(daemon):
    daemon.submit(wide(1 << 24, 2, 640 << 20), "never")
    job = daemon.wait_state("never", "FAILED")
    assert job["failure"]["cause"] == "OUT_OF_MEMORY"
    assert "reached zero; tried 2 1; never fitted" in job["failure"]["message"]
    assert len(job["attempts"]) == 2


def test_another_failure_ends_a_search_at_once(daemon):
    spec = wide(16, 8, 1 << 30)
    spec["loop"]["max_steps"] = 1000000
    spec["loop"]["num_epochs"] = 1000000
    daemon.submit(spec, "other")
    daemon.wait_step("other", 2)
    os.kill(int(daemon.job("other")["attempts"][0]["workers"][1]["pid"]), signal.SIGKILL)
    job = daemon.wait_state("other", "FAILED")
    assert job["failure"]["cause"] == "SIGNAL" and len(job["attempts"]) == 1


@pytest.mark.parametrize("changes, path", [
    ({"loop.find_executable_batch_size": {"reduce_factor": 1}}, "loop.find_executable_batch_size.reduce_factor"),
    ({"memory_limit_bytes": 1}, "memory_limit_bytes"),
    ({"multi_node": {"num_machines": 2}}, "multi_node.main_process_ip"),
    ({"multi_node": {"machine_rank": 1}}, "multi_node.machine_rank"),
    ({"multi_node": {"main_process_port": 0}}, "multi_node.main_process_port"),
    ({"accelerator.init_process_group_kwargs": {"backend": "cpu:gloo,cuda:nccl"}},
     "accelerator.init_process_group_kwargs.backend"),
    ({"accelerator.init_process_group_kwargs": {"init_method": "tcp://10.9.9.9:0"}},
     "accelerator.init_process_group_kwargs.init_method"),
])
def test_bad_input(daemon, changes, path):
    from test_bad_input import changed

    refused = daemon.accelctl("validate", "-", input=yaml.safe_dump(changed(blobs_spec(), changes)), check=False)
    assert refused.returncode == 2 and path in refused.stderr, refused.stderr
