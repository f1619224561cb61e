"""The commands of ci/pmu-machine that boot the machine. See ci/pmu-machine --help."""

import argparse
import os
import re
import signal
import sys

import build
from boot import TIMED_OUT, Machine


def main():
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    arguments = words[end + 1 :]
    options, cargo_options = parser().parse_known_args(words[:end])
    command = {"test": test, "run": run, "exec": execute}[options.command]
    sys.stdout.reconfigure(line_buffering=True)
    # Raises an exception on SIGTERM, which also ends the emulator.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(command(options, cargo_options, arguments))


def parser():
    parser = argparse.ArgumentParser("pmu-machine", add_help=False, allow_abbrev=False)
    parser.add_argument("command")
    parser.add_argument("--cpu", default="max")
    parser.add_argument("--smp", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--limit", type=int, default=30)
    parser.add_argument("--paranoid", type=int)
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--out")
    if sys.argv[1] == "test":
        parser.add_argument("--quiet", action="store_true")
    else:
        parser.add_argument("--script")
    if sys.argv[1] == "run":
        parser.add_argument("--example", action="append", default=[])
    return parser


def machine(options, programs):
    files = [in_guest(program) for program in programs]
    for file in options.file:
        host, _, guest = file.partition(":")
        files.append((host, guest or os.path.basename(os.path.normpath(host))))
    missing = [host for host, _ in files if not os.path.exists(host)]
    if missing:
        usage_error(f"no such file: {missing[0]}")
    for variable in options.env:
        if not re.match(r"[A-Za-z_]\w*=", variable):
            usage_error(f"--env {variable} is not NAME=VALUE")
    return Machine(
        cpu=options.cpu,
        smp=options.smp,
        timeout=options.timeout,
        limit=options.limit,
        paranoid=options.paranoid,
        env=options.env,
        files=files,
    )


def in_guest(program):
    return program, f"/usr/local/bin/{os.path.basename(program)}"


def usage_error(text):
    print(f"pmu-machine: {text}; see --help", file=sys.stderr)
    sys.exit(2)


def test(options, cargo_options, arguments):
    programs = build.tests(cargo_options)
    if not programs:
        usage_error("cargo built no tests for this machine")
    guest = machine(options, [program.path for program in programs])
    commands = [[in_guest(program.path)[1], *arguments] for program in programs]
    results, status = guest.boot(commands, options.out)

    tests = {"passed": 0, "failed": 0, "ignored": 0}
    endings = []
    for program, result in zip(programs, results):
        endings.append(describe(result))
        print(f"\n==== {program.source} on {options.cpu}", flush=True)
        if options.quiet and endings[-1] == "ok":
            skipped = re.findall(rb"^(?:.*: )?(?:skipped|not \w+): .*|^.* \.\.\. ignored.*", result.stdout, re.MULTILINE)
            print(b"\n".join([*skipped, summaries(result.stdout)]).decode(errors="replace"))
        else:
            show(result, stderr=sys.stdout)
        print(f"==== {program.source}: {endings[-1]}")
        for count, outcome in re.findall(rb"(\d+) (passed|failed|ignored)", summaries(result.stdout)):
            tests[outcome.decode()] += int(count)

    print(f"\n==== summary on {options.cpu}")
    for program, result, text in zip(programs, results, endings):
        print(f"{text:24} {result.seconds():6.2f} s {program.source}")
        for message in [] if text == "ok" else failures(result):
            print(message)
    print(
        f"{endings.count('ok')} of {len(programs)} programs ok; tests: "
        + ", ".join(f"{count} {outcome}" for outcome, count in tests.items())
    )
    return status or exit_status(results)


def summaries(output):
    """libtest's summary lines: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`"""
    return b"\n".join(re.findall(rb"^test result: .*", output, re.MULTILINE))


def failures(result):
    """The panic messages of failed tests: each line `thread 'NAME' … panicked at …` with the four lines after it. Tests
    that have no such thread panic in the main one, or in one without a name."""
    failed = set(re.findall(rb"^    (\S+)$", result.stdout.rpartition(b"\nfailures:\n")[2], re.MULTILINE))
    messages = re.finditer(rb"^thread '([^']*)' .*panicked at(?:.*\n){1,5}", result.stderr, re.MULTILINE)
    found = [(message[1], message[0].decode(errors="replace").rstrip()) for message in messages]
    named = [text for thread, text in found if thread in failed]
    return named or [text for thread, text in found if thread in {b"main", b"<unnamed>"}]


def run(options, cargo_options, arguments):
    if not options.example:
        usage_error("run requires --example NAME")
    if len(options.example) > 1 and not options.script:
        usage_error("several --example options require a --script that runs them")
    return run_one(options, build.examples(options.example, cargo_options), arguments)


def execute(options, cargo_options, arguments):
    if cargo_options:
        usage_error(f"exec builds nothing and takes no options of cargo: {' '.join(cargo_options)}")
    if options.script:
        return run_one(options, [], arguments)
    if not arguments:
        usage_error("exec requires -- PROGRAM, or --script FILE")
    return run_one(options, arguments[:1], arguments[1:])


def run_one(options, programs, arguments):
    guest = machine(options, programs)
    if options.script:
        guest.files.append((options.script, "/pmu/script"))
        command = ["sh", "/pmu/script", *arguments]
    else:
        command = [in_guest(programs[0])[1], *arguments]
    results, status = guest.boot([command], options.out)
    show(results[0])
    if results[0].timed_out:
        print(f"pmu-machine: {describe(results[0])}", file=sys.stderr)
        return TIMED_OUT
    return status or results[0].status


def show(result, stderr=sys.stderr):
    for stream, content in ((sys.stdout, result.stdout), (stderr, result.stderr)):
        stream.buffer.write(content)
        stream.flush()


def describe(result):
    if result.status is None:
        return "NO RESULT"
    if result.timed_out:
        return "TIMED OUT"
    if result.status:
        return f"FAILED, exit status {result.status}"
    return "ok"


def exit_status(results):
    if any(result.timed_out for result in results):
        return TIMED_OUT
    return int(any(result.status for result in results))


main()
