"""A loopback HTTP proxy in front of a tracker's server, with faults on order."""

import http.client
import time

from loopback_server import LoopbackServer, QuietHandler


class FaultProxy(LoopbackServer):
    """Each POST takes one entry off `plan`, while there is one:

    429, 500, 503   answered so, nothing reaches the server
    "lost"          nothing reaches the server, the connection closes without an answer
    "unanswered"    the server does its work, the connection closes without an answer
    "slow"          answered late
    """

    def __init__(self, upstream_url, plan=()):
        self.upstream = upstream_url.removeprefix("http://")
        self.plan = list(plan)
        super().__init__(Handler)

    def next_fault(self):
        with self.lock:
            return self.plan.pop(0) if self.plan else None


class Handler(QuietHandler):
    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def forward(self):
        fault = self.server.next_fault() if self.command == "POST" else None
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if isinstance(fault, int):
            return self.answer(fault, [("Retry-After", "0.2")], b'{"error": "on order"}')
        if fault == "lost":
            self.close_connection = True
            return None
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=30)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        if fault == "unanswered":
            self.close_connection = True
            return None
        if fault == "slow":
            time.sleep(1.5)
        return self.answer(answer.status, answer.getheaders(), data)

    do_GET = do_POST = do_PUT = forward
