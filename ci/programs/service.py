"""The example service as a process, and requests to it."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Nothing here takes this many seconds, unless it hangs.
TIMEOUT = 120


def until(condition, description):
    """The first true value that the condition returns."""
    deadline = time.monotonic() + TIMEOUT
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{description}: not within {TIMEOUT} s"
        time.sleep(0.1)
    return found


def ask(address, method, path, body=None, headers=None, connection=None):
    """The status, content type and text of the response."""
    connection = connection or http.client.HTTPConnection(address, timeout=TIMEOUT)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.getheader("content-type"), answer.read().decode()


class Service:
    """A service that runs within a `with` block and is then terminated. `report` is its final JSON, if it records."""

    def __init__(self, name, folder, *arguments, **settings):
        self.file = pathlib.Path(folder, f"{name}.json")
        environment = os.environ | settings | {"PERFMARK_FORMAT": "json", "PERFMARK_OUTPUT": str(self.file)}
        # cargo replaces its process with the program, so the process id is the program's.
        command = ["cargo", "run", "-q", "--release", "--locked", "-p", "service", "--example", "service"]
        command += ["--", *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.address = line.split("/")[-1].strip()

    def ask(self, method, path, body=None, headers=None):
        return ask(self.address, method, path, body, headers)

    def load(self, requests, connections=4):
        """Makes all the requests (method, path, body) over several connections; each must succeed."""

        def send_from(first):
            connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT)
            for request in requests[first::connections]:
                status, _, text = ask(self.address, *request, connection=connection)
                assert status in (200, 204), (request, status, text)

        with concurrent.futures.ThreadPoolExecutor(connections) as pool:
            list(pool.map(send_from, range(connections)))

    def snapshot(self):
        return json.loads(self.ask("GET", "/perfmark/snapshot")[2])

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if not failed:
            assert status == 0, status
            self.report = json.loads(self.file.read_text()) if self.file.exists() else None
