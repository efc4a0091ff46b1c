"""How Sphinx makes the pages that book/web.py lays out. Nothing is fetched, neither here nor by who reads them."""

from book.web import PAGES

project = "Step Time"
author = "The Step Time authors"
copyright = "The Step Time authors. Code: BSD-3-Clause. Prose and pictures: CC BY 4.0"
language = "en"

extensions = ["myst_nb", "sphinx_copybutton"]
exclude_patterns = ["stored/*"]
nb_execution_mode = "off"
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence"]

html_theme = "sphinx_book_theme"
html_favicon = "static/icon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_title = "Step Time"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_extra_path = [str(PAGES / "extra")]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "use_download_button": False,
    "navbar_persistent": [],  # the search button stands in the sidebar
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_use_index = False
html_domain_indices = False
toc_object_entries_show_parents = "hide"
copybutton_selector = "div.cell_input pre, div.highlight-sh pre, div.highlight-python pre"
