"""What the HTTP servers of the tests are: on a free port of loopback, each request in a thread."""

import http.server
import threading


class LoopbackServer(http.server.ThreadingHTTPServer):
    """Serves from its construction until close(). Handlers share `lock`."""

    daemon_threads = True

    def __init__(self, handler):
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """A client that closes its connection is no news."""


class QuietHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Quiet."""
