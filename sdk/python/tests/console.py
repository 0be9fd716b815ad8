"""The HTTP API: a real console on a Redis of its own, and a server that is played, which loses answers."""

import hashlib
import http.server
import os
import subprocess
import tempfile
import threading
import time
import urllib.request

from tests.server import DEADLINE, Server, free_port

BIN = os.environ.get("STREAMFLEET_BIN")


class Console:
    """`streamfleet console` with a token for each name: ``shop`` submits and sees results, ``blind`` submits, ``viewer`` does not."""

    ROLES = {"shop": 'role = "submitter"\npayloads = true', "blind": 'role = "submitter"', "viewer": 'role = "viewer"'}

    def __init__(self):
        self.server = Server()
        self.folder = tempfile.TemporaryDirectory()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.env = {"STREAMFLEET__REDIS__URL": self.server.url}
        accounts = os.path.join(self.folder.name, "accounts.toml")
        with open(accounts, "w") as file:
            for name, rights in self.ROLES.items():
                file.write(f'[tokens.{name}]\nsha256 = "{hashlib.sha256(self.token(name).encode()).hexdigest()}"\n{rights}\n')
        env = {**os.environ, **self.env, "STREAMFLEET__CONSOLE__ACCOUNTS_FILE": accounts, "STREAMFLEET__CONSOLE__REQUESTS_PER_SECOND": "10000"}
        self.log = open(os.path.join(self.folder.name, "log"), "wb")
        command = [os.path.abspath(BIN), "console", "--listen", f"127.0.0.1:{port}"]
        self.process = subprocess.Popen(command, cwd=self.folder.name, env=env, stdout=self.log, stderr=self.log)
        until = time.monotonic() + 3 * DEADLINE
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/healthz", timeout=DEADLINE).close()
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    with open(self.log.name, errors="replace") as file:
                        said = file.read()
                    self.stop()
                    raise AssertionError(f"the console did not start: {said}") from None
                time.sleep(0.02)

    @staticmethod
    def token(name):
        return f"a-token-of-{name}-with-many-letters-0123456789"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.server.stop()
        self.folder.cleanup()


class Played:
    """Answers each request with the next of these: a status, headers and a body, or None for a connection that breaks off."""

    def __init__(self, *answers, context=None):
        self.answers, self.requests = list(answers), []
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                played.requests.append((self.command, self.path, {**self.headers, "port": self.client_address[1]}, body))
                answer = played.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, headers, text = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()
