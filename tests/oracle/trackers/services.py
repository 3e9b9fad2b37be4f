"""Stand-ins for services that cannot run here. Each checks the shapes that its service's own package sends
(recorded from swanlab 0.10.3, comet_ml 3.58.8 and clearml 2.1.12) and keeps what it was sent. The packages
themselves upload to them too, with more than a client of ours may send."""

import base64
import gzip
import json
import re
import urllib.parse
import uuid

from loopback_server import LoopbackServer, QuietHandler

SWANLAB_KEY = "a-key-of-swanlab"
COMET_KEY = "a-key-of-comet"
CLEARML_KEYS = "an-access-key:a-key-of-clearml"


class Refused(Exception):
    """What a request gets instead of an answer: (status, body)."""


def check(condition, what, status=400, **body):
    if not condition:
        raise Refused(status, {"message": what, **body})


def check_fields(body, required, optional=()):
    check(isinstance(body, dict), f"no object: {body}")
    check(set(required) <= set(body) <= set(required) | set(optional), f"other fields than {required}: {sorted(body)}")


class Service(LoopbackServer):
    """Answers with answer(method, path, query, headers, raw body): (status, body)."""

    def __init__(self):
        self.refusals = []
        super().__init__(Handler)


class Handler(QuietHandler):
    def handle_any(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        url = urllib.parse.urlsplit(self.path)
        try:
            with self.server.lock:
                status, answer = self.server.answer(
                    self.command, urllib.parse.unquote(url.path), urllib.parse.parse_qs(url.query), self.headers, raw)
        except Refused as refused:
            status, answer = refused.args
        except (KeyError, ValueError, TypeError, StopIteration) as error:
            status, answer = 400, {"message": repr(error)}
        if status >= 400:
            self.server.refusals.append((self.command, self.path, status, answer))
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = handle_any


class SwanLab(Service):
    """Runs by id: {"project", "body", "config", "keys", "points": {key: {step: data}}, "repeats", "state", "beats"}.
    The first value of a key and step stays, as on the service."""

    def __init__(self, session="first"):
        self.projects, self.runs, self.session, self.logins = {}, {}, session, 0
        super().__init__()

    def answer(self, method, path, query, headers, raw):
        check(headers.get("X-SwanLab-SDK-Version") == "0.10.3", "no version")
        check(path.startswith("/api/"), "not below /api", 404)
        path = path[len("/api"):]
        if path == "/login/api_key":
            key = headers.get("authorization")
            check(key == SWANLAB_KEY, f"refused {key}", 401)
            self.logins += 1
            return 200, {"sid": self.session, "expiredAt": "2099-01-01T00:00:00.000Z",
                         "userInfo": {"username": "somebody"}}
        check(headers.get("Cookie") == f"sid={self.session}", "no session", 401)
        body = json.loads(raw) if raw else None
        for pattern, handler in ((r"/project/([^/]+)/([^/]+)", self.get_project), (r"/projects/([^/]+)", self.add_project),
                                 (r"/project/([^/]+)/([^/]+)/experiment", self.add_run),
                                 (r"/house/metrics/summaries/P/([^/]+)", self.summaries),
                                 (r"/project/[^/]+/[^/]+/runs/([^/]+)/profile", self.set_profile),
                                 (r"/projects/[^/]+/[^/]+/series", self.add_series), (r"/house/metrics", self.add_points),
                                 (r"/house/experiments/([^/]+)/heartbeat", self.beat),
                                 (r"/project/[^/]+/[^/]+/runs/([^/]+)/state", self.set_state)):
            if found := re.fullmatch(pattern, path):
                return handler(method, body, *found.groups())
        raise Refused(404, {"message": f"no such path {path}"})

    def get_project(self, method, body, user, project):
        check(method == "GET" and (user, project) in self.projects, "no such project", 404)
        return 200, {"cuid": "P", "name": project, "path": f"/@{user}/{project}", "version": 1,
                     "group": {"username": user}, "_count": {"experiments": len(self.runs)}}

    def add_project(self, method, body, user):
        check_fields(body, ("name", "visibility"))
        check(method == "POST" and body["visibility"] in ("PUBLIC", "PRIVATE"), "visibility")
        self.projects[user, body["name"]] = body
        return 201, {}

    def add_run(self, method, body, user, project):
        check_fields(body, ("name", "createdAt", "colors", "cuid"), ("description", "labels", "job", "cluster"))
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", body["createdAt"]), "createdAt")
        is_new = body["cuid"] not in self.runs
        if is_new:
            self.runs[body["cuid"]] = {"project": project, "body": body, "config": None, "keys": {}, "points": {},
                                       "repeats": 0, "state": "RUNNING", "beats": 0}
        run = self.runs[body["cuid"]]
        return 201 if is_new else 200, {"cuid": body["cuid"], "slug": body["cuid"], "name": body["name"],
                                        "createdAt": run["body"]["createdAt"]}

    def summaries(self, method, body, run):
        points = self.runs[run]["points"]
        return 200, {"log": [], "media": [], "scalar": [{"key": key, "step": max(p)} for key, p in points.items()]}

    def set_profile(self, method, body, run):
        check(method == "PUT" and set(body) <= {"config", "metadata", "requirements"}, "profile")
        for entry in body.get("config", {}).values():
            check_fields(entry, ("value", "sort", "desc"))
        self.runs[run]["config"] = body.get("config") or self.runs[run]["config"]
        return 200, {}

    def add_series(self, method, body):
        check_fields(body, ("series",))
        check(len(body["series"]) <= 3000, "more than 3000 keys")
        run = self.latest()
        for series in body["series"]:
            check_fields(series, ("key", "type"), ("sectionName", "xAxis", "hidden"))
            check(series["type"] == "FLOAT", "type")
            run["keys"][series["key"]] = series
        return 200, {}

    def latest(self):
        return next(run for run in reversed(self.runs.values()) if run["state"] == "RUNNING")

    def add_points(self, method, body):
        check_fields(body, ("type", "projectId", "experimentId", "metrics"))
        if body["type"] == "log":
            return 200, {}
        check(body["type"] == "scalar" and body["projectId"] == "P" and len(body["metrics"]) <= 10000, "metrics")
        run = self.runs[body["experimentId"]]
        for point in body["metrics"]:
            check_fields(point, ("key", "index", "data", "create_time"))
            check(point["key"] in run["keys"], f"unknown key {point['key']}")
            check(isinstance(point["data"], (int, float)) or point["data"] == "nan", "data")
            held = run["points"].setdefault(point["key"], {})
            run["repeats"] += point["index"] in held
            held.setdefault(point["index"], point["data"])
        return 200, {}

    def beat(self, method, body, run):
        check_fields(body, ("flagId",))
        self.runs[run]["beats"] += 1
        return 200, {}

    def set_state(self, method, body, run):
        check_fields(body, ("state", "finishedAt", "from"))
        check(method == "PUT" and body["state"] in ("FINISHED", "CRASHED", "ABORTED") and body["from"] == "sdk", "state")
        self.runs[run]["state"] = body["state"]
        return 200, {}


class Comet(Service):
    """Experiments by key: {"run", "metrics": [[name, step, value]], "parameters", "others", "tags", "alive", "errors"}.
    Every point stays, as on the service."""

    def __init__(self):
        self.experiments = {}
        super().__init__()

    @property
    def base(self):
        return self.url + "/clientlib/"

    def answer(self, method, path, query, headers, raw):
        is_own = headers.get("User-Agent", "").startswith("accel/")
        if not is_own and (method == "GET" or path == "/clientlib/asset/upload"):
            return 200, {"version": "4.7.500"}
        body = json.loads(raw, parse_constant=lambda word: check(False, f"{word} is no JSON"))
        key = headers.get("Authorization")
        check(key == COMET_KEY, f"refused {key}", 403, sdk_error_code=90212)
        check(method == "POST", "method", 405)
        handler = {"/clientlib/logger/add/run": self.add_run, "/clientlib/logger/get/run": self.get_run,
                   "/clientlib/status-report/update": self.report,
                   "/clientlib/batch/logger/experiment/metric": self.add_metrics,
                   "/clientlib/batch/logger/experiment/parameter": self.add_parameters,
                   "/clientlib/tags/add-tags-to-experiment": self.add_tags,
                   "/api/rest/v2/write/experiment/log-other": self.add_other,
                   "/api/rest/v2/write/experiment/update-status": self.set_status}.get(path)
        check(handler or not is_own, f"no such path {path}", 404)
        return 200, handler(body) if handler else {}

    def opened(self, key):
        return {"runId": f"run-{key}", "project_id": "P", "focusUrl": f"{self.url}/{key}"}

    def add_run(self, body):
        check_fields(body, ("apiKey", "local_timestamp", "experimentKey", "offline", "projectName", "teamName",
                            "libVersion", "getOrCreateEnabled"))
        check(re.fullmatch("[0-9a-zA-Z]{32,50}", body["experimentKey"]), "key")
        check(body["experimentKey"] not in self.experiments, "key exists", sdk_error_code=90999)
        self.experiments[body["experimentKey"]] = {
            "run": body, "metrics": [], "parameters": {}, "others": {}, "tags": [], "alive": [], "errors": []}
        return self.opened(body["experimentKey"])

    def get_run(self, body):
        check_fields(body, ("apiKey", "local_timestamp", "previousExperiment", "libVersion"))
        check(body["previousExperiment"] in self.experiments, "no such experiment")
        return self.opened(body["previousExperiment"])

    def report(self, body):
        check_fields(body, ("apiKey", "runId", "experimentKey", "projectId", "is_alive", "local_timestamp", "offline"))
        self.experiments[body["experimentKey"]]["alive"].append(body["is_alive"])
        return {"is_alive_beat_duration_millis": 10000, "gpu_monitor_interval_millis": 60000}

    def add_metrics(self, body):
        check_fields(body, ("experimentKey", "values"))
        check(len(body["values"]) <= 1000, "more than 1000 values")
        for value in body["values"]:
            check_fields(value, ("metricName", "metricValue", "step", "epoch", "context", "timestamp"))
            check(isinstance(value["timestamp"], int), "timestamp")
            self.experiments[body["experimentKey"]]["metrics"].append(
                [value["metricName"], value["step"], value["metricValue"]])
        return {}

    def add_parameters(self, body):
        check_fields(body, ("experimentKey", "values"))
        for value in body["values"]:
            check_fields(value, ("parameterName", "parameterValue", "step", "source", "context", "timestamp"))
            self.experiments[body["experimentKey"]]["parameters"][value["parameterName"]] = value["parameterValue"]
        return {}

    def add_tags(self, body):
        check_fields(body, ("apiKey", "experimentKey", "addedTags"))
        self.experiments[body["experimentKey"]]["tags"] += body["addedTags"]
        return {}

    def add_other(self, body):
        check_fields(body, ("experimentKey", "key", "value"))
        self.experiments[body["experimentKey"]]["others"][body["key"]] = body["value"]
        return {}

    def set_status(self, body):
        check_fields(body, ("experimentKey", "isAlive", "error", "hasCrashed"))
        self.experiments[body["experimentKey"]]["errors"].append(body["error"])
        return {}


def jwt():
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {"api_version": "2.31", "server_version": "2.1.0", "env": "prod", "feature_set": "basic",
              "iat": 1, "exp": 4102444800}
    return ".".join((part({"alg": "HS256", "typ": "JWT"}), part(claims), part("stand-in")))


class ClearML(Service):
    """Enough of ClearML's API for its package to read a task back: `tasks`, `projects` by id, `events`."""

    def __init__(self):
        self.tasks, self.projects, self.events = {}, {}, []
        super().__init__()

    def answer(self, method, path, query, headers, raw):
        action = path.rsplit("/", 1)[-1]
        scheme, _, credentials = (headers.get("Authorization") or "").partition(" ")
        batch = "json-lines" in (headers.get("Content-Type") or "")
        items = [json.loads(line, parse_constant=lambda word: check(False, f"{word} is no JSON"))
                 for line in raw.decode().splitlines() if line] if batch else []
        body = {} if batch or not raw else json.loads(raw)
        if action == "auth.login":
            pair = base64.b64decode(credentials).decode() if scheme == "Basic" else ""
            check(pair == CLEARML_KEYS or scheme == "Bearer", f"refused {pair}", 401)
            data = {"token": jwt()}
        else:
            check(scheme == "Bearer" and credentials, "no token", 401)
            data = self.act(action, body, items, headers.get("User-Agent", "").startswith("accel/"))
        meta = {"id": uuid.uuid4().hex, "trx": uuid.uuid4().hex, "result_code": 200, "result_subcode": 0,
                "result_msg": "OK", "error_stack": "", "error_data": {},
                "endpoint": {"name": action, "requested_version": "2.31", "actual_version": "1.0"}}
        return 200, {"meta": meta, "data": data}

    def act(self, action, body, items, is_own):
        states = {"tasks.started": "in_progress", "tasks.stopped": "stopped", "tasks.completed": "completed",
                  "tasks.failed": "failed"}
        task = self.tasks.get(body["task"]) if isinstance(body.get("task"), str) else None
        if action in ("projects.get_all", "projects.get_all_ex"):
            return {"projects": [{"id": i, "name": n} for i, n in self.projects.items()
                                 if re.match(body.get("name") or "", n)]}
        if action == "projects.create":
            key = uuid.uuid4().hex
            self.projects[key] = body["name"]
            return {"id": key}
        if action == "projects.get_by_id":
            return {"project": {"id": body["project"], "name": self.projects[body["project"]]}}
        if action == "tasks.create":
            check(body.get("name") and body.get("type") == "training" and body["project"] in self.projects, "task")
            key = uuid.uuid4().hex
            self.tasks[key] = {**body, "id": key, "status": "created", "last_iteration": 0}
            return {"id": key}
        if action in ("tasks.get_all", "tasks.get_all_ex"):
            return {"tasks": [t for t in self.tasks.values() if t["id"] in (body.get("id") or self.tasks)
                              and set(body.get("system_tags") or []) <= set(t.get("system_tags") or [])]}
        if action == "events.add_batch":
            return self.add_events(items, is_own)
        if action == "events.scalar_metrics_iter_histogram":
            return self.histogram(body["task"])
        if action == "events.get_task_single_value_metrics":
            return {"tasks": []}
        check(not action.startswith("tasks.") or task is not None, "no such task")
        if action == "tasks.get_by_id":
            return {"task": task}
        if action in ("tasks.edit", "tasks.update"):
            task.update({k: v for k, v in body.items() if k not in ("task", "force")})
        if action in states:
            task["status"] = states[action]
        return {"updated": 1, "fields": {}}

    def add_events(self, items, is_own):
        for item in items:
            check(item["task"] in self.tasks, "no such task")
            if item["type"] == "log" and not is_own:
                continue
            check_fields(item, ("timestamp", "type", "task", "iter", "metric", "variant", "value"),
                         () if is_own else item)
            check(item["type"] == "training_stats_scalar", "type")
            check(isinstance(item["value"], (int, float)) and isinstance(item["iter"], int), "value")
        self.events += items
        return {"added": len(items), "errors": 0, "errors_info": {}}

    def histogram(self, task):
        found = {}
        for event in self.events:
            if event["task"] == task and event["type"] != "log":
                series = found.setdefault(event["metric"], {}).setdefault(event["variant"], {})
                series[event["iter"]] = event["value"]
        return {title: {name: {"name": name, "x": sorted(points), "y": [points[x] for x in sorted(points)]}
                        for name, points in series.items()} for title, series in found.items()}
