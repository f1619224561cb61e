"""An initramfs: the cpio archive in newc format from which Linux fills its first file system.

The archive depends only on the content and permissions of files. It contains no times, owners or inode numbers of the
host, and its order is fixed, so that runs of the machine repeat exactly.
"""

import os
import stat


class Initramfs:
    def __init__(self):
        self._entries = {}

    def directory(self, path, mode=0o755):
        self._add(path, stat.S_IFDIR | mode, b"")

    def file(self, path, content, mode=0o644):
        self._add(path, stat.S_IFREG | mode, content)

    def character_device(self, path, major, minor):
        self._add(path, stat.S_IFCHR | 0o600, b"", (major, minor))

    def copy(self, source, path):
        """Copies a file, or a directory recursively. Follows symbolic links."""
        if os.path.isdir(source):
            self.directory(path)
            for name in os.listdir(source):
                self.copy(os.path.join(source, name), f"{path}/{name}")
        else:
            mode = 0o755 if os.access(source, os.X_OK) else 0o644
            with open(source, "rb") as file:
                self.file(path, file.read(), mode)

    def write(self, output):
        # A directory's path is a prefix of its files' paths and therefore sorts before them.
        for inode, (path, (mode, content, device)) in enumerate(sorted(self._entries.items()), 1):
            self._write_entry(output, inode, path, mode, content, device)
        self._write_entry(output, 0, "TRAILER!!!", 0, b"", (0, 0))

    def _add(self, path, mode, content, device=(0, 0)):
        path = os.path.normpath(path).lstrip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self._entries:
            self.directory(parent)
        self._entries[path] = (mode, content, device)

    @staticmethod
    def _write_entry(output, inode, path, mode, content, device):
        name = os.fsencode(path) + b"\0"
        links, owner, group, time, checksum = 1, 0, 0, 0, 0
        fields = (inode, mode, owner, group, links, time, len(content), 0, 0, *device, len(name))
        header = b"070701" + b"".join(b"%08X" % field for field in (*fields, checksum))
        for part in (header + name, content):
            output.write(part)
            output.write(bytes(-len(part) % 4))
