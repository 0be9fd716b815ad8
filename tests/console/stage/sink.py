"""A stand-in for a chat service: it takes messages, and keeps them."""

import http.server
import json
import threading


class Sink:
    """Takes what is posted to `url`, as Slack does, until it is closed."""

    def __init__(self):
        self.messages, taken = [], threading.Lock()
        messages = self.messages

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with taken:
                    messages.append(json.loads(body))
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/services/T0/B0/check"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
