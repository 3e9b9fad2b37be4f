"""Streams over gRPC: from any sequence number, several clients at once, clients that stall or vanish."""

import threading

import grpc
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from conftest import blobs_spec, wait_for


@pytest.fixture
def telemetry(api, channel):
    return api.TelemetryServiceStub(channel)


@pytest.fixture(scope="module")
def ended(daemon):
    daemon.submit(blobs_spec(epochs=10), "ended")
    daemon.wait_state("ended", "SUCCEEDED")
    return "jobs/ended"


def metrics(api, telemetry, name, after=0, follow=False):
    """All rows of a stream, and its end."""
    rows = []
    for message in telemetry.StreamMetrics(
            api.StreamMetricsRequest(name=name, range=api.RecordRange(after_sequence=after, follow=follow))):
        rows.extend(message.batch.records)
        if message.HasField("end"):
            return rows, message.end
    raise AssertionError("stream without an end")


def details(error):
    """The google.rpc.ErrorInfo of an RPC's error."""
    status = status_pb2.Status()
    status.ParseFromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    infos = [error_details_pb2.ErrorInfo.FromString(d.value) for d in status.details
             if d.Is(error_details_pb2.ErrorInfo.DESCRIPTOR)]
    assert len(infos) == 1
    return infos[0]


def test_metrics_carry_step_time_and_values(api, telemetry, ended):
    rows, end = metrics(api, telemetry, ended)
    assert end.reason in (api.StreamEnd.CAUGHT_UP, api.StreamEnd.JOB_ENDED)
    train = [r for r in rows if "train/loss" in r.values]
    assert [r.step for r in train] == list(range(1, 81))
    assert all(not r.HasField("rank") for r in train)
    assert all(r.time.ToNanoseconds() > 0 for r in rows)
    assert train[-1].values["train/loss"].number < train[0].values["train/loss"].number
    evaluation = [r for r in rows if "eval/accuracy" in r.values]
    assert len(evaluation) == 10
    assert all(r.values["eval/samples"].number == 40 for r in evaluation)


def test_resumes_after_any_sequence(api, telemetry, ended):
    rows, _ = metrics(api, telemetry, ended)
    sequences = [r.sequence for r in rows]
    assert sequences == sorted(set(sequences))
    for after in (sequences[0] - 1, sequences[0], sequences[37], sequences[-1] - 1, sequences[-1]):
        rest, _ = metrics(api, telemetry, ended, after=after)
        assert [r.sequence for r in rest] == [s for s in sequences if s > after]


def test_several_clients_follow_one_job(api, telemetry, daemon):
    daemon.submit(blobs_spec(epochs=60), "popular")
    results = [None] * 8

    def follow(index):
        results[index] = metrics(api, telemetry, "jobs/popular", follow=True)

    threads = [threading.Thread(target=follow, args=(i,)) for i in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert all(result is not None for result in results)
    first = [r.sequence for r in results[0][0]]
    for rows, end in results:
        assert [r.sequence for r in rows] == first
        assert end.reason == api.StreamEnd.JOB_ENDED
    assert len([r for r in results[0][0] if "train/loss" in r.values]) == 480


def test_client_that_stalls_or_vanishes_harms_nobody(api, daemon, telemetry):
    daemon.submit(blobs_spec(epochs=1000000), "lively")
    daemon.wait_step("lively", 200)
    stalled = telemetry.StreamMetrics(
        api.StreamMetricsRequest(name="jobs/lively", range=api.RecordRange(follow=True)))
    next(stalled)
    with grpc.insecure_channel(daemon.tcp_address) as doomed:
        vanishing = api.TelemetryServiceStub(doomed).StreamLogs(
            api.StreamLogsRequest(name="jobs/lively", range=api.RecordRange(follow=True)))
        threading.Timer(0.2, vanishing.cancel).start()
        with pytest.raises(grpc.RpcError):
            for _ in vanishing:
                pass
    daemon.wait_step("lively", int(daemon.job("lively")["progress"]["step"]) + 500)
    stalled.cancel()
    daemon.accelctl("cancel", "lively")
    daemon.wait_state("lively", "CANCELLED")


def test_logs_keep_rank_and_source(api, telemetry, ended):
    seen = set()
    for message in telemetry.StreamLogs(api.StreamLogsRequest(name=ended)):
        for record in message.batch.records:
            seen.add((record.source, record.rank if record.HasField("rank") else None))
    only_rank_one = list(telemetry.StreamLogs(api.StreamLogsRequest(name=ended, ranks=[1])))
    assert all(r.rank == 1 for m in only_rank_one for r in m.batch.records)
    assert all(source in (api.LogRecord.STDOUT, api.LogRecord.STDERR, api.LogRecord.SUPERVISOR) for source, _ in seen)


def test_unknown_job_is_not_found(api, telemetry):
    with pytest.raises(grpc.RpcError) as error:
        list(telemetry.StreamMetrics(api.StreamMetricsRequest(name="jobs/nobody")))
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert details(error.value).domain == "accel.v1"


def test_unimplemented_methods_name_themselves(api, channel):
    for call, request in (
        (api.JobServiceStub(channel).PauseJob, api.PauseJobRequest(name="jobs/ended")),
        (api.CheckpointServiceStub(channel).DeleteCheckpoint,
         api.DeleteCheckpointRequest(name="jobs/ended/checkpoints/0")),
    ):
        with pytest.raises(grpc.RpcError) as error:
            call(request)
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
        info = details(error.value)
        assert info.reason == "NOT_IMPLEMENTED" and info.metadata["feature"]


def test_request_id_is_answered_once(api, channel):
    stub = api.JobServiceStub(channel)
    spec = json_format.ParseDict(blobs_spec(), api.JobSpec())
    request = api.CreateJobRequest(spec=spec, job_id="once", request_id="6f9619ff-8b86-d011-b42d-00cf4fc964ff")
    first, second = stub.CreateJob(request), stub.CreateJob(request)
    assert first.uid == second.uid
    wait_for(lambda: stub.GetJob(api.GetJobRequest(name="jobs/once")).state == api.Job.SUCCEEDED, "job has ended")


def test_health_and_reflection(channel, tmp_path):
    from grpc_tools import protoc

    (tmp_path / "grpc_health_probe.proto").write_text(
        'syntax = "proto3"; package grpc.health.v1;'
        "message HealthCheckRequest { string service = 1; }"
        "message HealthCheckResponse { enum S { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; }"
        " S status = 1; }")
    assert protoc.main(["protoc", f"-I{tmp_path}", f"--python_out={tmp_path}",
                        str(tmp_path / "grpc_health_probe.proto")]) == 0
    import sys
    sys.path.insert(0, str(tmp_path))
    import grpc_health_probe_pb2 as health

    arguments = dict(request_serializer=health.HealthCheckRequest.SerializeToString,
                     response_deserializer=health.HealthCheckResponse.FromString)
    check = channel.unary_unary("/grpc.health.v1.Health/Check", **arguments)
    for service in ("", "accel.v1.JobService", "accel.v1.TelemetryService", "accel.v1.NodeService"):
        assert check(health.HealthCheckRequest(service=service)).status == 1
    with pytest.raises(grpc.RpcError) as error:
        check(health.HealthCheckRequest(service="nobody"))
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch", **arguments)(health.HealthCheckRequest())
    assert next(watch).status == 1
    watch.cancel()
    reflection = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                       request_serializer=bytes, response_deserializer=bytes)
    list_services = b"\x3a\x01*"
    assert b"accel.v1.JobService" in next(reflection(iter([list_services])))
