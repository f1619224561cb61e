"""Boots the emulated machine with programs in it and returns their results."""

import os
import resource
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass

from initramfs import Initramfs

TIMED_OUT = 124
NO_RESULT = 125

CONSOLE_LINES_SHOWN = 30

USERS = {
    "/etc/passwd": ["root:x:0:0::/root:/bin/sh", "nobody:x:65534:65534::/tmp:/bin/sh"],
    "/etc/group": ["root:x:0:", "nogroup:x:65534:"],
}


@dataclass
class Result:
    """The result of one program. Without a status, the machine stopped before the program ended."""

    stdout: bytes = b""
    stderr: bytes = b""
    uptimes: bytes = b""
    status: int | None = None
    timed_out: bool = False

    def seconds(self):
        """The duration of the program by the guest's clock."""
        times = [float(line.split()[0]) for line in self.uptimes.splitlines()]
        return times[-1] - times[0] if times else 0.0


@dataclass
class Machine:
    cpu: str
    smp: int
    timeout: int
    limit: int
    paranoid: int | None
    env: list[str]
    # The path of each file on the host, and in the guest.
    files: list[tuple[str, str]]

    def boot(self, commands, out=None):
        """Runs each command, a list of arguments.

        Returns the results and a status: 0, or TIMED_OUT or NO_RESULT if the machine did not complete all commands.
        """
        with tempfile.TemporaryDirectory(prefix="pmu-machine-") as folder:
            names = ("initrd", "serial", "console")
            initrd, serial, console = (os.path.join(folder, name) for name in names)
            with open(initrd, "wb") as file:
                self._initramfs(commands).write(file)
            # One part for the archive, and two for the unpacked files, which may fill at most half of the memory.
            memory = 512 + 3 * (os.path.getsize(initrd) >> 20)
            in_time = self._emulate(memory, initrd, serial, console)
            results, done = read_results(serial, len(commands), out)
            if done and all(result.status is not None for result in results):
                return results, 0
            stopped = f"it was stopped by --timeout after {self.timeout} s of CPU time"
            cause = "the machine stopped early" if in_time else stopped
            print(f"pmu-machine: {cause}; last lines of the console:", file=sys.stderr)
            show_end(console)
            return results, NO_RESULT if in_time else TIMED_OUT

    def _initramfs(self, commands):
        archive = Initramfs()
        for path in ("/dev", "/proc", "/sys", "/root", "/results"):
            archive.directory(path)
        for path in ("/out", "/tmp"):
            archive.directory(path, 0o1777)
        # The kernel opens it for init before /dev is mounted.
        archive.character_device("/dev/console", 5, 1)
        archive.copy(tool("root/bin/busybox"), "/bin/busybox")
        with open(os.path.join(os.path.dirname(__file__), "init"), "rb") as init:
            archive.file("/init", init.read(), 0o755)
        # Scripts switch to another user by its name.
        for path, lines in USERS.items():
            archive.file(path, "".join(f"{line}\n" for line in lines).encode())
        archive.file("/pmu/plan", self._plan(commands).encode())
        for source, path in self.files:
            archive.copy(source, os.path.join("/tmp", path))
        return archive

    def _plan(self, commands):
        lines = [f"export {shlex.quote(variable)}" for variable in self.env]
        if self.paranoid is not None:
            lines.append(f"echo {self.paranoid} >/proc/sys/kernel/perf_event_paranoid")
        for index, command in enumerate(commands):
            lines.append(f"program {index} {self.limit} {shlex.join(command)}")
        return "\n".join(lines) + "\n"

    def _emulate(self, memory, initrd, serial, console):
        """Runs the emulator until the guest powers off. Returns whether it did so in time."""
        # QEMU's own pointer authentication is three times as fast as the architecture's.
        cpu = "max,pauth-impdef=on" if self.cpu == "max" else self.cpu
        command = [
            tool("bin/qemu-system-aarch64"),
            *("-M", "virt", "-cpu", cpu, "-smp", str(self.smp), "-m", str(memory)),
            # One instruction per nanosecond, idle time skipped, and no other source of time or randomness, so that
            # runs repeat exactly. Without -icount, no event counts instructions.
            *("-icount", "shift=0,sleep=off", "-rtc", "base=2025-01-01,clock=vm", "-seed", "1"),
            *("-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{console}"),
            *("-chardev", f"file,id=results,path={serial}"),
            # The driver of this device is built into Debian's kernel. Those of virtio are modules.
            *("-device", "pci-serial,chardev=results"),
            *("-kernel", tool("root/kernel"), "-initrd", initrd),
            *("-append", "console=ttyAMA0 panic=-1 quiet"),
        ]
        # The emulator always computes, because it skips the guest's idle time. Its CPU time does not depend on what
        # else runs on the host. The limit of the host's clock is for an emulator that waits forever.
        limits = (self.timeout, self.timeout + 5)
        try:
            emulator = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limits),
                timeout=4 * self.timeout,
            )
        except subprocess.TimeoutExpired:
            return False
        return emulator.returncode != -signal.SIGXCPU


def tool(path):
    return os.path.join(os.environ["PMU_TOOLS"], path)


def read_results(serial, count, out):
    """Reads what init sent: a sequence of tar archives, of which the last may be truncated."""
    results = [Result() for _ in range(count)]
    done = False
    try:
        with tarfile.open(serial, ignore_zeros=True) as archive:
            for member in archive:
                content = archive.extractfile(member).read() if member.isfile() else None
                top, _, rest = member.name.partition("/")
                if member.name == "end":
                    done = True
                elif top == "out":
                    if out is not None:
                        save(os.path.join(out, rest), member, content)
                elif rest == "status":
                    # The status is empty if the guest had no space left to write it.
                    for word in content.split():
                        if word == b"timeout":
                            results[int(top)].timed_out = True
                        else:
                            results[int(top)].status = int(word)
                else:
                    setattr(results[int(top)], rest, content)
    except (FileNotFoundError, tarfile.ReadError):
        pass
    return results, done


def save(path, member, content):
    if member.isdir():
        os.makedirs(path, exist_ok=True)
    elif member.isfile():
        with open(path, "wb") as file:
            file.write(content)


def show_end(console):
    if os.path.exists(console):
        with open(console, errors="replace") as file:
            for line in file.read().splitlines()[-CONSOLE_LINES_SHOWN:]:
                print(f"    {line}", file=sys.stderr)
