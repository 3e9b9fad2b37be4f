"""A stand-in for W&B's server: keeps what wandb-core, or anyone who speaks its protocol, sends."""

import base64
import gzip
import json
import urllib.parse

from loopback_server import LoopbackServer, QuietHandler

KEY = "0123456789abcdef0123456789abcdef01234567"


class WandBServer(LoopbackServer):
    def __init__(self):
        # By run id: {"lines": {offset: row}, "writes": lines that were sent, "config", "summary", "run", "exitcode"}.
        self.runs = {}
        super().__init__(Handler)

    def run(self, name):
        return self.runs.setdefault(
            name, {"lines": {}, "writes": 0, "config": {}, "summary": {}, "run": {}, "exitcode": None})

    def rows(self, name):
        lines = self.runs[name]["lines"]
        assert sorted(lines) == list(range(len(lines)))
        return [json.loads(lines[i]) for i in sorted(lines)]


class Handler(QuietHandler):
    def answer(self, code, value):
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def read_json(self):
        if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        return json.loads(data)

    def do_GET(self):
        self.answer(404, {})

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer(200, {})

    def do_POST(self):
        body = self.read_json()
        expected = "Basic " + base64.b64encode(f"api:{KEY}".encode()).decode()
        if self.headers.get("Authorization") != expected:
            # As careless as a server can be: the answer repeats what came.
            return self.answer(401, {"error": f"refused {self.headers.get('Authorization')} {self.key()}"})
        with self.server.lock:
            if self.path == "/graphql":
                return self.answer(200, {"data": self.graphql(body.get("query", ""), body.get("variables") or {})})
            if self.path.endswith("/file_stream"):
                self.stream(urllib.parse.unquote(self.path).split("/")[-2], body)
                return self.answer(200, {"exitcode": None, "limits": {}})
        return self.answer(404, {})

    def key(self):
        scheme, _, text = (self.headers.get("Authorization") or "").partition(" ")
        return base64.b64decode(text).decode() if scheme == "Basic" else ""

    def stream(self, name, body):
        run = self.server.run(name)
        files = body.get("files") or {}
        history = files.get("wandb-history.jsonl")
        if history:
            for i, line in enumerate(history["content"]):
                run["lines"][history["offset"] + i] = line
                run["writes"] += 1
        summary = files.get("wandb-summary.json")
        if summary:
            run["summary"] = json.loads(summary["content"][-1])
        if body.get("complete"):
            run["exitcode"] = body.get("exitcode")

    def graphql(self, query, variables):
        entity = {"id": "E", "name": variables.get("entity") or "stand-in"}
        project = {"id": "P", "name": variables.get("project") or "uncategorized", "entity": entity}
        if "upsertBucket" in query:
            known = variables["name"] in self.server.runs
            run = self.server.run(variables["name"])
            if variables.get("config"):
                run["config"] = {k: v["value"] for k, v in json.loads(variables["config"]).items()}
            run["run"].update({k: v for k, v in variables.items() if v is not None and k != "config"})
            bucket = {"id": "B", "name": variables["name"], "displayName": variables.get("displayName"),
                      "config": "{}", "sweepName": None, "description": None, "project": project,
                      "historyLineCount": len(run["lines"])}
            return {"upsertBucket": {"bucket": bucket, "inserted": not known}}
        server_info = {"features": [], "cliVersionInfo": {}, "latestLocalVersionInfo": None}
        if "viewer" in query:
            viewer = {"id": "U", "entity": "stand-in", "username": "stand-in", "email": "", "flags": "{}",
                      "teams": {"edges": []}}
            return {"viewer": viewer, "serverInfo": server_info}
        if "createRunFiles" in query:
            files = [{"name": f, "uploadUrl": f"{self.server.url}/upload"} for f in variables.get("files", [])]
            return {"createRunFiles": {"runID": "B", "uploadHeaders": [], "files": files}}
        if "serverInfo" in query:
            return {"serverInfo": server_info}
        return {"model": {**project, "bucket": None}}
