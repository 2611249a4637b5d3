"""Configuration of the documentation site; ``python docs/build.py`` builds it."""

import sys
from pathlib import Path

from numpydoc import xref

import roofline as rl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "roofline"
author = "The roofline authors"
html_title = "roofline"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "columns_of_results",
    "generated_pages",
    "math_in_html",
    "short_names",
]
templates_path = ["templates"]
exclude_patterns = ["extensions", "templates", "site"]

# Names in single backticks of a docstring become links where the site has a page for them.
default_role = "py:obj"
nitpick_ignore = [("py:class", "collections.abc.Mapping")]  # the standard library has no pages here
add_module_names = False
toc_object_entries = False

autosummary_generate = True
autodoc_typehints = "none"  # the Parameters sections say it in words
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_attributes_as_param_list = True
numpydoc_xref_param_type = True
xref.DEFAULT_LINKS.clear()  # pages of Python and NumPy, which are on other hosts
numpydoc_xref_ignore = "all"  # words of a type that are no class of ours stay words
numpydoc_xref_aliases = {name: f"roofline.{name}" for name in rl._HOME if name[0].isupper()}

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are committed with outputs, which a test compares with a new run

html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {"source_view_link": "", "top_of_page_buttons": []}
pygments_style = "default"
