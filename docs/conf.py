"""Sphinx settings. The API pages are written from the public names at the start of each build."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import api_pages  # noqa: E402
import make_tutorials  # noqa: E402
import search_words  # noqa: E402
from docutils.nodes import document  # noqa: E402
from sphinx.addnodes import index  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

import nearfar  # noqa: E402

project = "nearfar"
author = "The nearfar developers"
copyright = author
version = release = nearfar.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"nearfar {version}"
html_static_path = ["_static"]
html_css_files = ["gallery.css"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings say more than the annotations
numpydoc_show_class_members = False  # the members follow on the page itself
numpydoc_validation_checks = {"PR01", "PR02", "SS01"}  # every parameter described, none invented
numpydoc_validation_exclude = {r"\._", r"contracts\.", r"\.get_params$", r"\.set_params$", r"__"}

api_pages.write(HERE / "api" / "generated")
for source in make_tutorials.SOURCES:  # a tutorial that fails fails the build
    make_tutorials.carry_out(source)


def lead_here(app: Sphinx, page: document) -> None:
    """Let the words that people search for lead to a page."""
    entries = [("single", word, "", "main", None) for word in search_words.words_of(app.env.current_document.docname)]
    if entries:
        page.insert(0, index(entries=entries))


words_of_pages = repr(search_words.PAGES)


def setup(app: Sphinx) -> None:
    app.add_config_value("words_of_pages", "", "env")  # other words: all pages are read again
    app.connect("doctree-read", lead_here)
