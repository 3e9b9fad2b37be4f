"""Runs accel-worker processes without a supervisor: speaks worker.proto on their descriptor 3."""

import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get("ACCEL_BIN_DIR", ROOT / "build" / "bin"))


def load_protos():
    """The protocol's Python modules, generated once a process."""
    if "accel.internal.v1.worker_pb2" not in sys.modules:
        from grpc_tools import protoc

        out = tempfile.mkdtemp(prefix="accel-protos-")
        files = [
            str(path.relative_to(ROOT / "proto"))
            for folder in ("accel/v1", "accel/internal/v1")
            for path in sorted((ROOT / "proto" / folder).glob("*.proto"))
        ]
        include = pathlib.Path(protoc.__file__).parent / "_proto"
        arguments = ["protoc", f"-I{include}", f"-I{ROOT / 'proto'}", f"--python_out={out}", *files]
        assert protoc.main(arguments) == 0
        sys.path.insert(0, out)
    from accel.internal.v1 import worker_pb2

    return worker_pb2


POWER_SGD_DEFAULTS = {
    "matrix_approximation_rank": 1,
    "start_powerSGD_iter": 1000,
    "min_compression_rate": 2.0,
    "use_error_feedback": True,
    "warm_start": True,
    "orthogonalization_epsilon": 0.0,
    "random_seed": 0,
    "compression_stats_logging_frequency": 10000,
    "batch_tensors_with_same_shape": False,
    "zero_gradient_guard": True,
}


def resolved_accelerator(overrides):
    """Accelerate's defaults as the daemon resolves them for the CPU, with `overrides` on top."""
    resolved = {
        "mixed_precision": "no",
        "step_scheduler_with_optimizer": True,
        "autocast_kwargs": {"enabled": True},
        "ddp_kwargs": {
            "broadcast_buffers": True,
            "bucket_cap_mb": 25,
            "find_unused_parameters": False,
            "gradient_as_bucket_view": False,
            "static_graph": False,
            "comm_hook": "no",
            "comm_wrapper": "no",
        },
        "scaler_kwargs": {
            "init_scale": 65536.0,
            "growth_factor": 2.0,
            "backoff_factor": 0.5,
            "growth_interval": 2000,
            "enabled": True,
        },
        "init_process_group_kwargs": {"backend": "gloo", "timeout": "60s"},
        "dataloader_config": {"split_batches": False, "even_batches": True, "use_seedable_sampler": False},
        "gradient_accumulation_plugin": {
            "num_steps": 1,
            "adjust_scheduler": True,
            "sync_with_dataloader": True,
            "sync_each_batch": False,
        },
        "project_config": {},
    }
    for key, value in overrides.items():
        if isinstance(value, dict):
            resolved.setdefault(key, {}).update(value)
        else:
            resolved[key] = value
    ddp = resolved["ddp_kwargs"]
    if "power_sgd" in ddp["comm_hook"]:
        ddp["comm_state_option"] = {**POWER_SGD_DEFAULTS, **ddp.get("comm_state_option", {})}
    return resolved


def above_shell(descriptor):
    """A duplicate above the numbers that the shell and the worker's channel use."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20)


class Rank:
    """One worker process and what it reported."""

    def __init__(self, protos, start, listener, stderr):
        self.reports = []
        self._protos = protos
        ours, theirs = socket.socketpair()
        self._channel = ours
        passed = above_shell(theirs.fileno())
        theirs.close()
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {BIN / 'accel-worker'} 3<&{passed} {passed}<&-"],
            pass_fds=[passed, *([listener] if listener is not None else [])],
            stderr=stderr,
        )
        os.close(passed)
        self.send(protos.ToWorker(start=start))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def send(self, message):
        data = message.SerializeToString()
        self._channel.sendall(struct.pack("<I", len(data)) + data)

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            part = self._channel.recv(size - len(data))
            if not part:
                return None
            data += part
        return data

    def _read(self):
        while (prefix := self._exactly(4)) is not None:
            contents = self._exactly(struct.unpack("<I", prefix)[0])
            if contents is None:
                return
            self.reports.extend(self._protos.FromWorker.FromString(contents).reports)

    def wait(self, seconds):
        self.process.wait(seconds)
        self._reader.join(seconds)
        self._channel.close()

    def of(self, kind):
        """The reports of one kind, `step` or `metrics`."""
        return [getattr(report, kind) for report in self.reports if report.HasField(kind)]

    def losses(self):
        return [step.loss for step in self.of("step")]


def train(
    spec, folder, world_size=1, accelerator=None, checkpoints=None, resume_dir="", next_checkpoint=0, seconds=120
):
    """Trains `spec` (JobSpec as a dictionary) and returns its ranks; data root `data` is `folder`."""
    from google.protobuf import json_format

    protos = load_protos()
    server = socket.create_server(("127.0.0.1", 0))
    listener = above_shell(server.fileno())
    ranks = []
    log = open(folder / "workers.log", "ab")
    try:
        for rank in range(world_size):
            start = protos.StartAttempt(
                job_name="jobs/test",
                attempt=1,
                rank=rank,
                world_size=world_size,
                store_host="127.0.0.1",
                store_port=server.getsockname()[1],
                store_listen_fd=listener if rank == 0 else -1,
                checkpoints_dir=str(checkpoints or folder / "checkpoints"),
                resume_dir=str(resume_dir),
                next_checkpoint=next_checkpoint,
            )
            start.data_roots["data"] = str(folder)
            json_format.ParseDict(spec, start.spec)
            json_format.ParseDict(resolved_accelerator(accelerator or {}), start.resolved_accelerator)
            ranks.append(Rank(protos, start, listener if rank == 0 else None, log))
        for rank in ranks:
            rank.wait(seconds)
    finally:
        for rank in ranks:
            if rank.process.poll() is None:
                rank.process.kill()
                rank.process.wait()
        os.close(listener)
        server.close()
        log.close()
    return ranks


def finished(ranks):
    """Whether all ranks did their work; the message of the first that did not, for asserts."""
    for rank in ranks:
        for failure in rank.of("failure"):
            return failure.message
        if rank.process.returncode != 0 or not rank.of("finished"):
            return f"exit code {rank.process.returncode} without a report"
    return "yes"
