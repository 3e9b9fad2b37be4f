"""Logs a job's rows through Accelerate's own tracker: accelerate_run.py TRACKER PROJECT FOLDER < JSON.

The input is {"config": {...}, "rows": [[step, {key: value}], ...], "options": {...}}. PyTorch and Accelerate are this
interpreter's, the tracker's package comes from ACCEL_TRACKERS_SITE.
"""

import json
import os
import sys

sys.path.append(os.environ["ACCEL_TRACKERS_SITE"])

from accelerate import Accelerator  # noqa: E402
from accelerate.utils import ProjectConfiguration  # noqa: E402


def main():
    tracker, project, folder = sys.argv[1:]
    given = json.load(sys.stdin)
    os.environ["AIM_UI_TELEMETRY_ENABLED"] = "0"
    logging_dir = os.environ.get("ACCEL_LOGGING_DIR", folder)
    configuration = ProjectConfiguration(project_dir=folder, logging_dir=logging_dir)
    accelerator = Accelerator(log_with=tracker, project_config=configuration, cpu=True)
    accelerator.init_trackers(project, config=given["config"], init_kwargs={tracker: given["options"]})
    for step, values in given["rows"]:
        accelerator.log(values, step=step)
    accelerator.end_training()


main()
