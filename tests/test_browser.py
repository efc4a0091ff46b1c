"""A chapter as its reader meets it: JupyterLab as `make lab` starts it, in Chromium, cleared and run from the top."""

import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager

import pytest

from book.chapters import ROOT, all_chapters, claim_texts, code_cells
from book.lab import choose_port, command, environment

TOKEN = "a-reader"
KERNEL = "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
CODE_CELLS = "jupyterapp.shell.currentWidget.content.widgets.filter(cell => cell.model.type === 'code')"
READ_CELLS = f"() => {CODE_CELLS}.map(cell => cell.model.toJSON())"
UNRUN = f"() => {CODE_CELLS}.flatMap((cell, place) => cell.model.executionCount === null ? [place] : [])"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a Lab that serves a copy of the notebooks, so that nothing here is saved over."""
    folder = tmp_path_factory.mktemp("a home 집")  # with a space and Korean letters, as people have
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    with lab(folder) as address:
        yield address


@contextmanager
def lab(folder):
    """Start Lab as `make lab` does, with a home of its own; stop it afterwards."""
    port = choose_port(first=8950)
    home = {name: str(folder / name) for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    home |= {"JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(folder / "spaces")}
    options = ["--no-browser", f"--IdentityProvider.token={TOKEN}", "--LabApp.expose_app_in_browser=True"]
    address = f"http://127.0.0.1:{port}"
    with (folder / "lab.log").open("w") as log:
        server = subprocess.Popen([*command(port, folder), *options], env=environment() | home, stdout=log, stderr=log)
        try:
            wait_for(f"{address}/api/status?token={TOKEN}", server, folder / "lab.log")
            yield address
        finally:
            stop(address, server)


def stop(address, server, seconds=60):
    """Ask Lab to end its kernels and itself; a signal, while a kernel starts, would leave both hanging."""
    shutdown = urllib.request.Request(f"{address}/api/shutdown?token={TOKEN}", method="POST")
    try:
        urllib.request.urlopen(shutdown, timeout=seconds).close()
        server.wait(seconds)
    except (OSError, subprocess.TimeoutExpired):
        server.kill()
        server.wait()


def wait_for(address, server, log, seconds=60):
    end = time.monotonic() + seconds
    while True:
        try:
            return urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                pytest.fail(f"JupyterLab does not answer; it said:\n{log.read_text()[-2000:]}")
            time.sleep(0.2)


@pytest.mark.parametrize("chapter", all_chapters(), ids=lambda chapter: chapter.name)
def test_a_reader_sees_every_claim_hold(chapter, browser, served):
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    elsewhere = []
    page.on("request", lambda request: elsewhere.append(request.url) if is_elsewhere(request.url, served) else None)
    page.goto(f"{served}/lab/tree/notebooks/{chapter.name}.ipynb?token={TOKEN}")
    run_all(page)
    cells = page.evaluate(READ_CELLS)
    assert not page.locator(".Toastify__toast").count()  # nothing asks the reader for anything
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")  # its memory, for the next one
    page.close()
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    warned = "".join("".join(output["text"]) for output in outputs if output.get("name") == "stderr")
    assert not warned.strip()  # a progress bar that came and went leaves blanks
    claims = [text for cell in code_cells(chapter.read_text().cells) for text in claim_texts(cell.source)]
    verdicts = "".join("".join(output["text"]) for output in cells[-1]["outputs"]).splitlines()
    assert verdicts[:-1] == [f"True   {text}" for text in claims]
    stored = code_cells(chapter.read_notebook().cells)
    assert pictures(outputs) == pictures(output for cell in stored for output in cell.outputs)
    assert not elsewhere


def pictures(outputs):
    """How many of the outputs are pictures."""
    return sum("<img" in "".join(output.get("data", {}).get("text/html", "")) for output in outputs)


def test_the_book_opens_on_its_first_page(browser, served):
    page = browser.new_page()
    page.goto(f"{served}/?token={TOKEN}")
    page.wait_for_function("() => window.jupyterapp?.shell.currentWidget?.title.label === '00_start_here.ipynb'")
    page.wait_for_function(f"() => {KERNEL} === 'idle'", timeout=60_000)
    page.close()


def is_elsewhere(url, served):
    return not url.startswith((served, served.replace("http", "ws", 1), "data:", "blob:"))


def run_all(page, seconds=240):
    """Clear the open notebook, so that no stored run passes for a new one, then run all of it and wait until it is."""
    page.wait_for_function(f"() => {KERNEL} === 'idle'", timeout=60_000)
    page.evaluate("""() => Promise.all([jupyterapp.restored, jupyterapp.shell.currentWidget.context.ready,
        jupyterapp.shell.currentWidget.sessionContext.ready])""")
    for _ in range(20):  # on a busy machine an order can come before the notebook can take it
        page.evaluate("() => jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        if len(page.evaluate(UNRUN)) == page.evaluate(f"() => {CODE_CELLS}.length"):
            break
        page.wait_for_timeout(500)
    else:
        pytest.fail("The notebook cannot be cleared.")
    end, state = time.monotonic() + seconds, None
    while unrun := page.evaluate(UNRUN):
        if time.monotonic() > end:
            pytest.fail(f"After {seconds} s the code cells {unrun} have not run; the kernel is {state}.")
        state = page.evaluate(f"() => {KERNEL}")
        if unrun[0] == 0 and state == "idle":  # nothing has begun: the order was lost, so a reader gives it again
            page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells') }")
            page.wait_for_timeout(2_000)
        page.wait_for_timeout(500)
    page.wait_for_function(f"() => {KERNEL} === 'idle'", timeout=seconds * 1000)
