"""A loopback TCP proxy whose connections can be cut in the middle, for protocols that are more than HTTP."""

import socket
import threading


class CutProxy:
    """`after` is a list: each connection takes a number of bytes off it, after which of what the client sent it is cut;
    `is_open` False refuses every connection."""

    def __init__(self, port):
        self.upstream, self.after, self.is_open, self.cuts = port, [], True, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if not self.is_open:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.upstream))
            except OSError:
                client.close()
                continue
            limit = self.after.pop(0) if self.after else None
            threading.Thread(target=self.pump, args=(client, server, limit), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, None), daemon=True).start()

    def pump(self, source, target, limit):
        sent = 0
        try:
            while data := source.recv(65536):
                sent += len(data)
                if limit is not None and sent > limit:
                    self.cuts += 1
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
