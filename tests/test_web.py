"""The pages for the web as their reader meets them: made from the stored notebooks, served as files, in Chromium."""

import re
import subprocess
import sys
import threading
import time
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urljoin

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe

from book import web
from book.chapters import ROOT, code_cells, find_chapters
from book.run import printed
from steptime import machine

pytestmark = pytest.mark.web

SECONDS = 60  # for the whole site
THEMES, WIDTHS = ("light", "dark"), (390, 1_300)
# A token of code looks the same wherever it stands: axe gets one of each kind, or it takes minutes.
THIN_OUT = """() => {
    const seen = new Set()
    for (const token of document.querySelectorAll('pre span[class]')) {
        if (seen.has(token.className)) token.replaceWith(...token.childNodes)
        seen.add(token.className)
    }
}"""
PAGES = ["index", "signs", "terms", "helper", "search", *(chapter.name for chapter in find_chapters())]


@pytest.fixture(scope="module")
def site():
    """The folder of the site, made as `make html` makes it."""
    began = time.monotonic()
    made = subprocess.run([sys.executable, "-m", "book.web"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert time.monotonic() - began < SECONDS
    return web.SITE


@pytest.fixture(scope="module")
def served(site):
    """The address of a server that hands out those files and nothing else."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture
def opened(browser, served):
    """A function that opens a page and tells, with it, what went wrong on it so far."""
    pages = []

    def open_page(name, width=1_300):
        page = browser.new_page(viewport={"width": width, "height": 900})
        wrong = []
        page.on("request", lambda request: request.url.startswith((served, "data:")) or wrong.append(request.url))
        page.on("response", lambda answer: answer.status < 400 or wrong.append(f"{answer.status} {answer.url}"))
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{served}{name}.html")
        pages.append(page)
        return page, wrong

    yield open_page
    for page in pages:
        page.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_alone_fits_the_screen_and_is_for_everybody(name, width, opened):
    """No error, no request elsewhere, nothing wider than the screen, nothing that axe calls serious in either theme."""
    page, wrong = opened(name, width)
    page.evaluate("() => document.querySelectorAll('img').forEach(image => { image.loading = 'eager' })")
    page.wait_for_function("() => [...document.images].every(image => image.complete && image.naturalWidth)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(THIN_OUT)
    page.add_style_tag(content="* { transition: none !important }")  # a colour on its way to the other theme is neither
    breaches = []
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(f"() => document.documentElement.dataset.theme === '{theme}'")
        found = Axe().run(page, options={"preload": False, "resultTypes": ["violations"]}).response["violations"]
        bad = [violation for violation in found if violation["impact"] in ("serious", "critical")]
        breaches += [f"{theme}: {one['id']}: {node['html'][:200]}" for one in bad for node in one["nodes"]]
    assert not breaches, "\n".join(breaches)
    assert not wrong


class Anchors(HTMLParser):
    """The links of a page and the names of its places."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.places.add(given.get("id"))
        self.links += [given[name] for name in ("href", "src") if given.get(name)]


def test_every_link_leads_to_a_file_and_a_place(site):
    pages = {path.name: Anchors(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}
    for name, page in pages.items():
        for link in page.links:
            if re.match(r"https://|data:", link):
                continue
            target, _, place = unquote(urljoin(name, link.split("?")[0])).partition("#")
            assert (site / target).is_file(), f"{name} links to {link}"
            if target in pages and not place.startswith("py-"):
                assert place in pages[target].places, f"{name} links to {link}"


@pytest.mark.parametrize(
    ("words", "chapter"),
    [
        ("Gauss", "00_start_here"),  # in prose
        ("set_num_threads", "05_compute_efficiency"),  # in code
        ("Adam", "07_memory"),
    ],
)
def test_search_finds_prose_and_code(words, chapter, opened):
    assert chapter in found(words, opened)


def test_search_finds_what_only_the_description_of_a_picture_says(site, opened):
    """A word of a picture's alt text that stands nowhere else in the chapter."""
    [chapter] = find_chapters("03")
    notebook = chapter.read_notebook().cells
    html = "".join(o.data.get("text/html", "") for c in code_cells(notebook) for o in c.outputs if "data" in o)
    described = set(re.findall(r"[a-z]{5,}", " ".join(re.findall(r'alt="([^"]*)"', html))))
    elsewhere = " ".join([cell.source for cell in notebook] + [printed(cell) for cell in code_cells(notebook)])
    elsewhere += " ".join(re.findall(r"<figcaption>(.*?)</figcaption>", html))
    [word, *_] = sorted(word for word in described if word[:4] not in elsewhere.lower())
    assert chapter.name in found(word, opened)


def found(words, opened):
    """The pages that the search names for some words."""
    page, wrong = opened("index")
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    page.wait_for_function("() => /finished|not match/.test(document.querySelector('.search-summary')?.innerText)")
    assert not wrong
    links = page.locator("ul.search a").evaluate_all("all => all.map(link => link.getAttribute('href'))")
    return [link.split(".html")[0] for link in links]


def test_code_can_be_copied(opened):
    page, _ = opened("00_start_here")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("div.cell_input .copybtn").first.click()
    assert (
        page.evaluate("() => navigator.clipboard.readText()") == "from steptime import claim, claims, compare, machine"
    )


def test_a_reader_goes_on_and_back(opened):
    page, _ = opened("01_measurement")
    page.locator(".next-page, a.right-next").click()
    assert page.url.endswith("02_profiling.html")
    page.locator("a.left-prev").click()
    assert page.url.endswith("01_measurement.html")


def test_a_chapter_opens_with_its_claims_its_machine_and_its_notebook(site, opened):
    [chapter] = find_chapters("01")
    notebook = chapter.read_notebook()
    *lines, _ = printed(notebook.cells[-1]).splitlines()
    page, _ = opened(chapter.name)
    rows = page.locator(".verdicts tbody tr").all_inner_texts()
    assert [" ".join(row.split()) for row in rows][: len(lines)] == [" ".join(line.split()) for line in lines]
    noted = notebook.metadata["steptime"].get("machine", "")
    told = re.search(r"processor +(.*)|$", noted)[1] or "a machine that was not noted"
    assert told in page.locator(".verdicts").inner_text()
    [stored] = site.glob(f"_downloads/*/{chapter.name}.ipynb")
    assert stored.read_bytes() == chapter.notebook.read_bytes()


def test_the_machine_is_told_as_the_refresh_notes_it():
    notebook = nbformat.v4.new_notebook(metadata={"steptime": {"machine": repr(machine.card())}})
    assert web.machine(notebook).startswith(web.plain(dict(machine.card().rows)["processor"]))


@pytest.mark.parametrize("chapter", find_chapters(), ids=lambda chapter: chapter.name)
def test_every_figure_is_a_file_with_a_description_and_a_caption(chapter, site):
    stored = chapter.notebook.read_text(encoding="utf-8").count("data:image/png;base64")
    page = (site / f"{chapter.name}.html").read_text(encoding="utf-8")
    shown = re.findall(r'<figure><a href="(figures/[^"]+)"><img alt="[^"]+".*?<figcaption>[^<]+</figcaption>', page)
    assert len(shown) == stored and "base64" not in page
    assert all((site / path).is_file() for path in shown)


def test_a_term_leads_to_where_it_is_defined(opened):
    page, _ = opened("terms")
    page.locator("dt:has-text('arithmetic intensity') + dd a.internal").click()
    page.wait_for_url("**/05_compute_efficiency.html#term-05-arithmetic-intensity")
    assert page.locator("#term-05-arithmetic-intensity").inner_text() == "arithmetic intensity"


def test_the_signs_of_every_chapter_are_on_one_page(opened):
    page, _ = opened("signs")
    rows = page.locator("table.signs tbody tr").all_inner_texts()
    assert len(rows) > 60
    for chapter in find_chapters():
        assert any(row.rstrip().endswith(web.title(chapter)) for row in rows)
    assert any("the clock" in row and "call the function in a loop" in row for row in rows)


def test_the_helper_page_holds_what_a_reader_imports(opened):
    page, _ = opened("helper")
    names = page.locator("dt.sig").evaluate_all("all => all.map(one => one.id)")
    for name in ("compare.compare", "compare.Race.at_least", "trace.read", "trace.Trace.gaps", "verify.report"):
        assert f"steptime.{name}" in names
    assert not [name for name in names if "._" in name]
    assert "same: how far b’s answer may be from a’s" in page.locator("main").inner_text()


def test_pages_need_no_torch():
    code = (
        "import sys; sys.modules['torch'] = None; from book import chapters, web; web.lay_out(chapters.all_chapters())"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_front_page_has_the_minutes_that_each_chapter_says():
    for row in web.chapters_table().splitlines()[2:]:
        number, _, _, minutes, *_ = (cell.strip() for cell in row.strip("|").split("|"))
        [chapter] = find_chapters(number)
        assert f"*{minutes} minutes to read" in chapter.read_notebook().cells[0].source
