"""Sphinx: ``make docs``."""

from pathlib import Path

import momentmix

project = "momentmix"
author = "The momentmix developers"
copyright = "The momentmix developers"
version = release = momentmix.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
suppress_warnings = ["config.cache"]  # of a function in sphinx_gallery_conf
myst_heading_anchors = 3
myst_links_external_new_tab = False
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc says it in words
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = {
    "momentmix.GaussianMixture": True,
    "momentmix.MomentMixture": True,
    "momentmix.KnownCovarianceMixture": True,
}
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "momentmix"
html_static_path = ["_static"]
html_css_files = ["momentmix.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}

HERE = Path(__file__).parent


def _quick(gallery_conf, script_vars):
    """Examples that take long run in their quick form here."""
    return ["--quick", str(HERE / "_build" / "examples")]


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "reset_argv": _quick,
    "remove_config_comments": True,
    "show_memory": False,
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "write_computation_times": False,
}


def setup(app):
    import sys

    sys.path.insert(0, str(HERE))
    import diagrams

    app.connect("builder-inited", diagrams.draw)
