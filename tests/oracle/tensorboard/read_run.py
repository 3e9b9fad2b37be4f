#!/usr/bin/env python3
"""Prints what the tensorboard package reads below a log folder, as JSON.

usage: read_run.py LOGDIR

{RUN: {"scalars": {TAG: [[step, value, wall time], ...]},
       "text": {TAG: [[step, text], ...]},
       "hparams": {"start": {NAME: value}, "status": NAME, "start_time": s, "end_time": s}}}

RUN is the run's path below LOGDIR. Values that are no finite numbers are printed as "nan", "inf" and
"-inf". Exits with 1 when there is no run.
"""

import json
import math
import os
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import api_pb2, metadata


def number(value):
    return value if math.isfinite(value) else str(float(value))


def read_hparams(accumulator):
    found = {}
    try:
        contents = accumulator.PluginTagToContent("hparams")
    except KeyError:
        return found
    for tag, content in contents.items():
        if tag == metadata.SESSION_START_INFO_TAG:
            info = metadata.parse_session_start_info_plugin_data(content)
            found["start"] = {
                name: getattr(value, value.WhichOneof("kind")) for name, value in info.hparams.items()
            }
            found["start_time"] = info.start_time_secs
        elif tag == metadata.SESSION_END_INFO_TAG:
            info = metadata.parse_session_end_info_plugin_data(content)
            found["status"] = api_pb2.Status.Name(info.status)
            found["end_time"] = info.end_time_secs
        else:
            found.setdefault("other_tags", []).append(tag)
    return found


def read_run(folder):
    everything = {name: 0 for name in event_accumulator.DEFAULT_SIZE_GUIDANCE}
    accumulator = event_accumulator.EventAccumulator(folder, size_guidance=everything)
    accumulator.Reload()
    run = {"scalars": {}, "text": {}, "hparams": read_hparams(accumulator)}
    for tag in accumulator.Tags()["scalars"]:
        run["scalars"][tag] = [
            [event.step, number(event.value), event.wall_time] for event in accumulator.Scalars(tag)
        ]
    for tag in accumulator.Tags()["tensors"]:
        if accumulator.SummaryMetadata(tag).plugin_data.plugin_name != "text":
            continue
        run["text"][tag] = [
            [event.step, event.tensor_proto.string_val[0].decode()]
            for event in accumulator.Tensors(tag)
        ]
    return run


def read_runs(logdir):
    runs = {}
    for folder, _, files in os.walk(logdir):
        if any("tfevents" in name for name in files):
            runs[os.path.relpath(folder, logdir)] = read_run(folder)
    return runs


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    read = read_runs(sys.argv[1])
    print(json.dumps(read, indent=1, sort_keys=True))
    sys.exit(0 if read else 1)
