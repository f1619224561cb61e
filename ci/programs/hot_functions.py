"""The example hot_functions."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INPUT = "perfmark/src"


def run(form, *, features="", inputs=(INPUT,), **settings):
    """The report of a run, and what the program wrote to stderr."""
    command = ["cargo", "run", "-q", "--release", "--locked", "--example", "hot_functions", "--features", features]
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "report")
        environment = os.environ | settings | {"PERFMARK_FORMAT": form, "PERFMARK_OUTPUT": str(output)}
        command += ["--", *inputs]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stderr}hot_functions failed with status {done.returncode}")
        # Read as bytes to keep the line endings.
        return output.read_bytes().decode(), done.stderr
