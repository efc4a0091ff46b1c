"""Open the book in JupyterLab."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from book.run import ENVIRONMENT

ROOT = Path(__file__).resolve().parent.parent
FIRST_PAGE = "notebooks/00_start_here.ipynb"


def main(arguments):
    """Open the first chapter; `arguments` may hold a port."""
    try:
        port = choose_port(*arguments)
    except ValueError as problem:
        return str(problem)
    if warning := unsaved(ROOT / "notebooks"):
        print(warning)
    lab = subprocess.Popen(command(port), cwd=ROOT, env=environment())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for Lab, which asks whether it was meant
    return lab.wait()


def unsaved(folder):
    """One sentence where nobody may write to the notebooks' folder, else None: they run, but Lab cannot save them."""
    if os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return None
    return f"You may not write to {folder}: the chapters run, but changes are lost. Copy the book to a folder of yours."


def command(port, folder=ROOT):
    """The command that serves `folder` on one port and tries no other."""
    lab = [sys.executable, "-m", "jupyterlab", f"--port={port}", "--ServerApp.port_retries=0"]
    lab += [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url=/lab/tree/{FIRST_PAGE}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container one is often root, which Jupyter refuses
        lab += ["--allow-root"]
    return lab


def environment():
    """The environment for Lab: its kernels as the tests run them, and no question about fetching news."""
    paths = [str(ROOT / "book" / "jupyter"), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    return {**os.environ, **ENVIRONMENT, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}


def choose_port(asked="", first=8888, tries=50):
    """The port asked for, or the first free one from `first` on.

    Raises ValueError, with one sentence, when the port asked for is no port or taken, or none is free.
    """
    if asked:
        if not (asked.isdecimal() and 1024 <= int(asked) <= 65535):
            raise ValueError(f"{asked} is no port for it: choose one from 1024 to 65535, as in make lab PORT=8890.")
        if not is_free(int(asked)):
            raise ValueError(f"Port {asked} is taken: choose another, or let make lab find a free one.")
        return int(asked)
    for port in range(first, first + tries):
        if is_free(port):
            if port != first:
                print(f"Port {first} is taken, so the book opens on {port}.")
            return port
    raise ValueError(
        f"The ports {first} to {first + tries - 1} are all taken: name a free one, as in make lab PORT=9999."
    )


def is_free(port):
    """True where a server can listen on this port of this machine."""
    with socket.socket() as listener:
        if os.name != "nt":  # a server that just stopped leaves its port waiting; Windows would share a busy one
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


if __name__ == "__main__":
    sys.exit(main([argument for argument in sys.argv[1:] if argument]))
