"""Sphinx: ``make docs``."""

import inspect
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
numpydoc_show_class_members = (
    False  # _templates/autosummary/class.rst renders them, with their text
)
templates_path = ["_templates"]
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "momentmix"
html_static_path = ["_static"]
html_css_files = ["momentmix.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "github_url": "https://github.com/momentmix/momentmix",
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


def _skip(app, what, name, obj, skip, options):
    """Leaves out scikit-learn's routing of metadata, and fields whose only text is their number."""
    field = (getattr(obj, "__doc__", None) or "").startswith("Alias for field number")
    routing = name in {"get_metadata_routing", "set_output"} or name.endswith("_request")
    return True if field or routing else None


def _signature(app, what, name, obj, options, signature, result):
    """Of estimators, whose base class has a constructor for all, the parameters of their own."""
    if what != "class" or "*args" not in (signature or ""):
        return None
    own = inspect.signature(obj)
    bare = [p.replace(annotation=p.empty) for p in own.parameters.values()]
    return str(own.replace(parameters=bare, return_annotation=own.empty)), None


def setup(app):
    import sys

    sys.path.insert(0, str(HERE))
    import diagrams

    app.connect("builder-inited", diagrams.draw)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _signature)
