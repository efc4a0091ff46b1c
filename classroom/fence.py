"""What a student's process may use: limits that the system enforces, and a fence in Python around files and programs.

The limits hold. The fence is for honest mistakes and plain tricks: whoever can write machine code climbs it, so a class
with such students is graded in a container (docs/teaching.md).
"""

import ctypes
import os
import resource
import signal
import sys

import psutil

MEMORY = 4 * 2**30  # bytes, beside what the imports took
FILE = 256 * 2**20  # bytes of the largest file
DIES_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown", "os.utime")
CHANGES += ("os.link", "os.symlink", "sqlite3.connect")
NEVER = ("subprocess.Popen", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.kill", "os.killpg")
NEVER += ("gc.get_objects", "gc.get_referrers", "gc.get_referents", "socket.getaddrinfo")
SYSTEM = ("/usr", "/lib", "/lib64", "/etc", "/sys", "/dev", "/proc")


def limit():
    """Let the system hold this process to its memory, its largest file, no core dump, and the life of its parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
    memory = psutil.Process().memory_info().vms + MEMORY
    for what, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, FILE), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (most, most))


def enclose(readable, closed, own):
    """From now on this process reads files in the folders `readable` and `own`, and writes in `own` only.

    closed: a folder that holds solutions; of what is in it, only the folders that `readable` names can be read.
    It starts no program and sends no signal. What it tries beyond that raises PermissionError. Forks are free, since
    loaders need them.
    """
    closed, own = os.path.realpath(closed), os.path.realpath(own)
    readable = tuple(os.path.realpath(folder) for folder in (*readable, *SYSTEM, own))

    def refuse(event, arguments):
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, int):
                check(path, (own, "/dev/null") if (flags or 0) & WRITING else readable)
        elif event in CHANGES:
            for path in arguments:
                if isinstance(path, (str, bytes, os.PathLike)):
                    check(path, (own,))
        elif event in NEVER:
            raise PermissionError(f"a graded notebook may not use {event}")

    def check(path, folders):
        real = os.path.realpath(os.fsdecode(path))
        if inside(real, closed):
            folders = [folder for folder in folders if inside(folder, closed)]
        _, top, *below = real.split(os.sep)
        of_another = top == "proc" and below and below[0].isdecimal() and below[0] != str(os.getpid())
        if of_another or not any(inside(real, folder) for folder in folders):
            raise PermissionError(f"a graded notebook may not open {real}")

    def inside(path, folder):
        return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)

    sys.addaudithook(refuse)
