"""A chapter as its reader meets it: JupyterLab as `make lab` starts it, in Chromium, cleared and run from the top."""

import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from book.chapters import ROOT, all_chapters, claim_texts, code_cells
from book.lab import choose_port, command, environment

TOKEN = "a-reader"
KERNEL = "jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
CODE_CELLS = "jupyterapp.shell.currentWidget.content.widgets.filter(cell => cell.model.type === 'code')"
READ_CELLS = f"() => {CODE_CELLS}.map(cell => cell.model.toJSON())"
ALL_CELLS = "jupyterapp.shell.currentWidget.content.widgets.length"
THEMES = ("JupyterLab Light", "JupyterLab Dark")
OF_THE_BOOK = {"include": [[".jp-Notebook .jp-RenderedHTMLCommon"], [".jp-Notebook .jp-OutputArea-output"]]}
READABLE = {"runOnly": ["color-contrast", "image-alt"], "resultTypes": ["violations", "incomplete"], "preload": False}
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


@dataclass
class Opened:
    """A chapter in a browser's page, and the addresses outside of Lab that it asked for."""

    page: Page
    elsewhere: list


@pytest.fixture(scope="module")
def reading(request, browser, served):
    """Gives a chapter that has run from the top. The next one runs meanwhile, as where a reader has two open."""
    wanted = [item.callspec.params["chapter"] for item in request.session.items if "reading" in fixtures(item)]
    begun = {}

    def reading(chapter):
        place = wanted.index(chapter)
        for each in wanted[place : place + 2]:
            if each.name not in begun:
                begun[each.name] = opened(browser, served, each)
                begin(begun[each.name].page)
        finish(begun[chapter.name].page)
        return begun.pop(chapter.name)

    return reading


def fixtures(item):
    """The names of what a test is given; cells of notebooks are given nothing."""
    return getattr(item, "fixturenames", ())


def opened(browser, served, chapter):
    """Open a chapter in a workspace of its own, so that no other is opened beside it."""
    page, elsewhere = browser.new_page(viewport={"width": 1400, "height": 1000}), []
    page.on("request", lambda request: elsewhere.append(request.url) if is_elsewhere(request.url, served) else None)
    page.goto(f"{served}/lab/workspaces/{chapter.name}/tree/notebooks/{chapter.name}.ipynb?token={TOKEN}")
    page.wait_for_function(f"() => {KERNEL} === 'idle'", timeout=60_000)
    return Opened(page, elsewhere)


@pytest.mark.parametrize("chapter", all_chapters(), ids=lambda chapter: chapter.name)
def test_a_reader_sees_every_claim_hold_and_can_read_it_in_both_themes(chapter, reading):
    opened = reading(chapter)
    page = opened.page
    cells = page.evaluate(READ_CELLS)
    assert not page.locator(".Toastify__toast").count()  # nothing asks the reader for anything
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")  # its memory, for the next one
    unreadable = breaches(page)
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
    assert not opened.elsewhere
    assert not unreadable, "\n".join(unreadable)


def breaches(page):
    """What axe says of the contrast of prose and outputs, and of pictures without words, in each of Lab's themes."""
    page.add_style_tag(content="body { height: 100vh }")  # Lab's has no height, and axe takes all in it for hidden
    page.wait_for_function(f"() => document.querySelectorAll('.jp-Notebook .jp-Cell').length === {ALL_CELLS}")
    page.evaluate("() => document.querySelectorAll('.jp-CodeMirrorEditor').forEach(code => code.remove())")  # Lab's
    for _ in range(2):  # axe sees what is on the screen; cells that come onto it can get longer
        height = page.evaluate("() => document.querySelector('.jp-WindowedPanel-viewport').scrollHeight")
        page.set_viewport_size({"width": 1400, "height": height + 300})
        page.wait_for_timeout(500)
    found = []
    for theme in THEMES:
        page.evaluate(f"() => jupyterapp.commands.execute('apputils:change-theme', {{theme: '{theme}'}})")
        page.wait_for_function(f"() => document.body.dataset.jpThemeName === '{theme}'")
        page.wait_for_function("() => !document.querySelector('#jupyterlab-splash')")
        said = Axe().run(page, context=OF_THE_BOOK, options=READABLE).response
        wrong = [*said["violations"], *said["incomplete"]]
        found += [f"{theme}: {one['id']}: {node['html'][:200]}" for one in wrong for node in one["nodes"]]
    return found


def test_pale_words_and_a_picture_without_words_are_seen(browser, served):
    page = opened(browser, served, all_chapters()[0]).page
    page.evaluate("""() => { document.querySelector('.jp-Notebook .jp-RenderedHTMLCommon').innerHTML +=
        '<p style="color: #eee; background: #fff">pale</p><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">' }""")
    found = breaches(page)
    page.close()
    kinds = ("color-contrast", "image-alt")
    assert [breach.split(": ")[:2] for breach in found] == [[theme, kind] for theme in THEMES for kind in kinds]


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


def begin(page):
    """Clear the open notebook, so that no stored run passes for a new one, and have all of it run."""
    page.evaluate("""() => Promise.all([jupyterapp.restored, jupyterapp.shell.currentWidget.context.ready,
        jupyterapp.shell.currentWidget.sessionContext.ready])""")
    for _ in range(20):  # on a busy machine an order can come before the notebook can take it
        page.evaluate("() => jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        if len(page.evaluate(UNRUN)) == page.evaluate(f"() => {CODE_CELLS}.length"):
            break
        page.wait_for_timeout(500)
    else:
        pytest.fail("The notebook cannot be cleared.")
    for _ in range(30):
        if page.evaluate(f"() => {KERNEL}") == "idle":  # nothing has begun: the order was lost, so it is given again
            page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells') }")
        page.wait_for_timeout(2_000)
        if page.evaluate(f"() => {KERNEL}") == "busy" or 0 not in page.evaluate(UNRUN):
            return
    pytest.fail("The notebook cannot be run.")


def finish(page, seconds=300):
    """Wait until every code cell of the open notebook has run."""
    end = time.monotonic() + seconds
    while unrun := page.evaluate(UNRUN):
        if time.monotonic() > end:
            state = page.evaluate(f"() => {KERNEL}")
            pytest.fail(f"After {seconds} s the code cells {unrun} have not run; the kernel is {state}.")
        page.wait_for_timeout(500)
    page.wait_for_function(f"() => {KERNEL} === 'idle'", timeout=seconds * 1000)
