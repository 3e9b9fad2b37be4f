"""Jobs from submission to their end, and what is left behind."""

import os
import signal

import safetensors.torch
import yaml

from conftest import blobs_spec, wait_for


def test_job_succeeds_and_leaves_checkpoint(daemon):
    spec = blobs_spec(epochs=3)
    daemon.submit(spec, "plain")
    job = daemon.wait_state("plain", "SUCCEEDED")
    assert job["progress"] == {"step": "24", "total_steps": "24", "epoch": job["progress"].get("epoch"),
                               "total_epochs": "3"}
    assert len(job["attempts"]) == 1 and len(job["attempts"][0]["workers"]) == 2
    [checkpoint] = daemon.json("checkpoints", "plain")["checkpoints"]
    assert checkpoint["step"] == "24"
    weights = safetensors.torch.load_file(os.path.join(checkpoint["path"], "model.safetensors"))
    assert sorted(tuple(t.shape) for t in weights.values()) == [(3,), (3, 16), (16,), (16, 8)]


def test_accumulated_steps_in_bf16(daemon):
    spec = blobs_spec(epochs=3)  # 8 batches an epoch
    spec["accelerator"] = {"mixed_precision": "bf16", "gradient_accumulation_plugin": {"num_steps": 3}}
    daemon.submit(spec, "accumulated")
    job = daemon.wait_state("accumulated", "SUCCEEDED")
    assert job["progress"]["step"] == job["progress"]["total_steps"] == "9"
    assert job["resolved_accelerator"]["gradient_accumulation_plugin"]["sync_with_dataloader"] is True


def test_events_tell_the_life(daemon):
    daemon.submit(blobs_spec(), "life")
    daemon.wait_state("life", "SUCCEEDED")
    text = daemon.accelctl("watch", "life").stdout
    order = [text.index(word) for word in ("STARTING", "RUNNING", "SUCCEEDED")]
    assert order == sorted(order)


def test_early_end_is_a_success_that_says_why(daemon):
    spec = blobs_spec(epochs=1000)
    spec["loop"]["early_stopping"] = [{"metric": "eval/accuracy", "threshold": 0.5},
                                      {"metric": "train/loss", "patience": 1000}]
    daemon.submit(spec, "early")
    job = daemon.wait_state("early", "SUCCEEDED")
    stopped = job["early_stopped"]
    assert stopped["step"] == job["progress"]["step"] and int(stopped["step"]) < 8000
    assert stopped["metric"] == "eval/accuracy" and stopped["value"] >= 0.5
    assert f"stopped early at step {stopped['step']}: {stopped['reason']}" in daemon.accelctl("watch", "early").stdout
    assert stopped["reason"] in daemon.accelctl("get", "early").stdout
    [checkpoint] = daemon.json("checkpoints", "early")["checkpoints"]
    assert checkpoint["step"] == stopped["step"]


def test_cancel_stops_all_ranks_at_one_step(daemon):
    daemon.submit(blobs_spec(epochs=1000000), "endless")
    daemon.wait_step("endless", 50)
    daemon.accelctl("cancel", "endless")
    job = daemon.wait_state("endless", "CANCELLED", seconds=30)
    assert int(job["progress"]["step"]) >= 50
    assert "failure" not in job


def test_queue_is_first_in_first_out(daemon):
    for name in ("first", "second", "third"):
        daemon.submit(blobs_spec(epochs=20), name)
    jobs = [daemon.wait_state(name, "SUCCEEDED") for name in ("first", "second", "third")]
    assert [j["start_time"] for j in jobs] == sorted(j["start_time"] for j in jobs)


def test_delete_removes_everything(daemon):
    daemon.submit(blobs_spec(), "gone")
    assert daemon.accelctl("delete", "gone", check=False).returncode == 5
    daemon.wait_state("gone", "SUCCEEDED")
    daemon.accelctl("delete", "gone")
    assert daemon.accelctl("get", "gone", check=False).returncode == 4
    wait_for(lambda: not daemon.job_dir("gone").exists(), "the job's folder is gone", 10)


def test_killed_worker_is_the_first_cause(daemon):
    daemon.submit(blobs_spec(epochs=1000000), "killed")
    daemon.wait_step("killed", 20)
    workers = {w.get("rank", 0): int(w["pid"]) for w in daemon.job("killed")["attempts"][0]["workers"]}
    os.kill(workers[1], signal.SIGKILL)
    job = daemon.wait_state("killed", "FAILED", seconds=30)
    failure = job["failure"]
    assert failure["rank"] == 1 and failure["signal"] == 9
    assert failure["cause"] in ("SIGNAL", "OUT_OF_MEMORY")
    assert failure["message"].startswith("rank 1 exited on signal 9 at step ")
    for pid in workers.values():
        assert not os.path.exists(f"/proc/{pid}")
    assert daemon.json("node")["pid"] == str(daemon.process.pid)


def test_out_of_memory_is_named(daemon):
    spec = blobs_spec(ranks=1)
    spec["model"] = {"mlp": {"layer_sizes": [8, 4000000, 4000000, 3]}}
    daemon.submit(spec, "huge")
    job = daemon.wait_state("huge", "FAILED", seconds=60)
    assert job["failure"]["cause"] == "OUT_OF_MEMORY", job["failure"]


def test_malformed_row_is_named(daemon, data_root):
    lines = (data_root / "blobs.csv").read_text().splitlines()
    lines[41] = lines[41].replace(",", ",oops", 1)
    (data_root / "bad.csv").write_text("\n".join(lines))
    spec = blobs_spec()
    spec["data"]["train"]["file"] = "data/bad.csv"
    daemon.submit(spec, "malformed")
    failure = daemon.wait_state("malformed", "FAILED", seconds=60)["failure"]
    assert failure["cause"] == "DATA"
    assert "row 42" in failure["message"] and "column 2" in failure["message"], failure


def test_resume_goes_on_where_the_checkpoint_is(daemon):
    import torch

    daemon.submit(blobs_spec(epochs=4), "whole")
    daemon.submit(blobs_spec(epochs=4, checkpoint_every_steps=11), "parts")
    daemon.wait_state("whole", "SUCCEEDED")
    daemon.wait_state("parts", "SUCCEEDED")
    checkpoints = daemon.json("checkpoints", "parts")["checkpoints"]
    middle = next(c["name"] for c in checkpoints if c["step"] == "11")
    daemon.submit({**blobs_spec(epochs=4), "resume_from": middle}, "resumed")
    daemon.wait_state("resumed", "SUCCEEDED")

    def weights(job):
        newest = daemon.json("checkpoints", job)["checkpoints"][0]
        return safetensors.torch.load_file(os.path.join(newest["path"], "model.safetensors"))

    whole, resumed = weights("whole"), weights("resumed")
    assert whole.keys() == resumed.keys()
    for name in whole:
        assert torch.equal(whole[name], resumed[name]), name


def test_run_follows_and_exit_code_is_the_outcome(daemon, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(blobs_spec()))
    assert daemon.accelctl("run", file, "--id", "followed").returncode == 0
    broken = blobs_spec()
    broken["data"]["train"]["csv"] = {"target_column": 3}
    file.write_text(yaml.safe_dump(broken))
    assert daemon.accelctl("run", file, "--id", "followed-broken", check=False).returncode == 1


def test_communication_hook_of_a_job(daemon):
    hook = {"comm_hook": "power_sgd", "comm_wrapper": "bf16", "comm_state_option": {"start_powerSGD_iter": 4}}
    daemon.submit({**blobs_spec(epochs=3), "accelerator": {"ddp_kwargs": hook}}, "hook")
    daemon.wait_state("hook", "SUCCEEDED")
    [checkpoint] = daemon.json("checkpoints", "hook")["checkpoints"]
    for rank in (0, 1):
        state = safetensors.torch.load_file(os.path.join(checkpoint["path"], f"comm_hook_{rank}.safetensors"))
        assert state["iteration"] == 24 and state["q.0"].isfinite().all()
    log = daemon.accelctl("logs", "hook").stdout
    assert log.count("power_sgd: iteration 4, elements before compression 195, after compression") == 1

    daemon.submit({**blobs_spec(ranks=1), "accelerator": {"ddp_kwargs": {"comm_hook": "fp16"}}}, "alone")
    daemon.wait_state("alone", "SUCCEEDED")
    assert "no effect with one rank" in daemon.accelctl("watch", "alone").stdout
