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
# Nothing here takes so long, in seconds: what does hangs.
PATIENCE = 120


def until(condition, what):
    """What the condition gives once that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.1)
    return found


def ask(address, method, path, body=None, headers=None, connection=None):
    """Status, type and text of the answer."""
    connection = connection or http.client.HTTPConnection(address, timeout=PATIENCE)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.getheader("content-type"), answer.read().decode()


class Service:
    """It runs within a `with`, and is asked to end at its end; `report` is then the JSON of its end, if it records."""

    def __init__(self, name, folder, *arguments, **settings):
        self.file = pathlib.Path(folder, f"{name}.json")
        environment = os.environ | settings | {"PERFMARK_FORMAT": "json", "PERFMARK_OUTPUT": str(self.file)}
        # cargo becomes the program that it runs.
        command = ["cargo", "run", "-q", "--release", "--locked", "--example", "service", "--", *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.address = line.split("/")[-1].strip()

    def ask(self, method, path, body=None, headers=None):
        return ask(self.address, method, path, body, headers)

    def load(self, requests, connections=4):
        """Makes all the requests (method, path, body) over several connections; each must succeed."""

        def some(first):
            connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
            for request in requests[first::connections]:
                status, _, text = ask(self.address, *request, connection=connection)
                assert status in (200, 204), (request, status, text)

        with concurrent.futures.ThreadPoolExecutor(connections) as pool:
            list(pool.map(some, range(connections)))

    def snapshot(self):
        return json.loads(self.ask("GET", "/perfmark/snapshot")[2])

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if not failed:
            assert status == 0, status
            self.report = json.loads(self.file.read_text()) if self.file.exists() else None
