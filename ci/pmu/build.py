"""Builds tests and examples for the guest with cargo, and finds the programs."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

# In the ELF header: the byte offset of e_machine, and its value for arm64.
ELF_MACHINE_OFFSET = 18
EM_AARCH64 = 183


@dataclass
class Program:
    path: str
    # The file of its main module, relative to the current directory.
    source: str


# Optimizing dependencies takes longer than the tests that use them.
UNOPTIMIZED = ["--config", 'profile.release.package."*".opt-level=0']


def tests(options):
    programs = [
        Program(message["executable"], os.path.relpath(message["target"]["src_path"]))
        for message in artifacts(["test", "--no-run", *UNOPTIMIZED, *options])
        if message["profile"]["test"] and for_guest(message)
    ]
    # Cargo lists them in the order in which they are built, which varies.
    return sorted(programs, key=lambda program: program.source)


def examples(names, options):
    if not any(option.startswith(("-p", "--package")) for option in options):
        options = [*options, "-p", "examples"]
    if not any(option.startswith(("--profile", "--release")) for option in options):
        options = [*options, "--release"]
    for name in names:
        options = [*options, "--example", name]
    return [message["executable"] for message in artifacts(["build", *options])]


def artifacts(arguments):
    """Runs cargo with the toolchain of the environment. Returns its messages about executables."""
    command = ["cargo", *arguments, "--locked", "--message-format=json-render-diagnostics"]
    cargo = subprocess.run(command, stdout=subprocess.PIPE)
    if cargo.returncode:
        sys.exit(cargo.returncode)
    messages = map(json.loads, cargo.stdout.splitlines())
    return [message for message in messages if message.get("executable")]


def for_guest(message):
    with open(message["executable"], "rb") as file:
        header = file.read(ELF_MACHINE_OFFSET + 2)
    if header[ELF_MACHINE_OFFSET] == EM_AARCH64:
        return True
    source = os.path.relpath(message["target"]["src_path"])
    print(f"pmu-machine: skipped {source}, because it is built for the host", file=sys.stderr)
    return False
