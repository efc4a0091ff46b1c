"""Make .venv with all that the book needs; at once when it is there already.

Run by whatever Python the reader has, so it uses nothing newer than Python 3.6.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
STAMP = os.path.join(VENV, "installed")
PYTHON = os.path.join(VENV, "Scripts", "python.exe") if os.name == "nt" else os.path.join(VENV, "bin", "python")
ROOM = 3 * 10**9  # bytes: .venv takes 1.8 GB with a CPU build of torch, and pip needs space to unpack


def main():
    """Install, or say in one sentence what is missing and exit with 1."""
    made_with = venv_version()
    if made_with and made_with != sys.version_info[:2]:
        print("The book keeps Python {}.{}, with which .venv was made; delete .venv to change it.".format(*made_with))
    if is_installed():
        return
    problem = missing(sys.version_info, importlib.util.find_spec, shutil.disk_usage(ROOT).free)
    if problem:
        sys.exit(problem)
    print("Installing the book into .venv: two to ten minutes, once.", flush=True)
    venv = [sys.executable, "-m", "venv"] + ([] if os.path.exists(PYTHON) else ["--clear"]) + [VENV]
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
    pip += ["--editable", ".[book,test,web]"]
    for command in (venv, pip):
        problem = run(command)
        if problem:
            sys.exit(problem)
    for folder, _, names in os.walk(VENV):
        for name in names:
            if name.startswith("__editable__.steptime") and name.endswith(".pth"):
                point_to_sources(os.path.join(folder, name))
    with open(STAMP, "w") as stamp:
        stamp.write(wanted())


def point_to_sources(pth):
    """Make pip's pointer to the sources relative: with other letters in it, Python cannot start under LANG=C."""
    with open(pth, "w") as pointer:
        pointer.write(os.path.relpath(os.path.join(ROOT, "src"), os.path.dirname(pth)) + "\n")


def is_installed():
    """True where .venv holds what the project asks for today, at the place where it was made."""
    if not (os.path.exists(PYTHON) and os.path.exists(STAMP)):
        return False
    with open(STAMP) as stamp:
        return stamp.read() == wanted()


def venv_version():
    """(major, minor) of the Python in .venv; None where there is none."""
    try:
        with open(os.path.join(VENV, "pyvenv.cfg")) as settings:
            version = next(line.partition("=")[2].strip() for line in settings if line.startswith("version"))
    except (OSError, StopIteration):
        return None
    return tuple(int(part) for part in version.split(".")[:2])


def wanted():
    """A fingerprint of what has to be installed, and where."""
    parts = [ROOT.encode()]
    for name in ("pyproject.toml", "constraints.txt"):
        with open(os.path.join(ROOT, name), "rb") as part:
            parts.append(part.read())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def missing(version, find_module, free):
    """One sentence on what this machine lacks for an installation, or None.

    version: of Python, as in sys.version_info. find_module: name -> None where there is none. free: bytes.
    """
    if tuple(version[:2]) < (3, 11):
        return "Step Time needs Python 3.11 or newer and this is {}.{}: call make PYTHON=python3.11 or newer.".format(
            *version[:2]
        )
    if find_module("venv") is None or find_module("ensurepip") is None:
        return "Python's venv module is missing: install it (Debian: apt install python3-venv) and run make again."
    if free < ROOM:
        return "No room on the disk: the book needs {:.0f} GB in {} and {:.1f} GB are free.".format(
            ROOM / 1e9, ROOT, free / 1e9
        )
    return None


def run(command):
    """Run one step of the installation; None when it went well, or else one sentence on what went wrong."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True
    )
    said = []
    for line in process.stdout:
        if not line.startswith("WARNING:"):
            sys.stdout.write(line)
            said.append(line)
    if process.wait() == 0:
        return None
    said = "".join(said)
    if "No space left" in said or "Errno 28" in said:
        return "The disk filled up: free {:.0f} GB, or 8 for a torch with CUDA, then run make again.".format(ROOM / 1e9)
    if "Read-only file system" in said or "Permission denied" in said:
        return "{} cannot be written: copy the book to a folder of your own, then run make again.".format(ROOT)
    if "NewConnectionError" in said or "No matching distribution" in said:
        return "pip could not get the packages: check the connection to its index, then run make again."
    return "The installation stopped at the error above: mend that, then run make again."


if __name__ == "__main__":
    main()
