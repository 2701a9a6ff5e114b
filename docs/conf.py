"""Sphinx builds these pages: `make docs`. Nothing is fetched, neither to build nor to read them."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "visr"
author = "The visr authors"
copyright = author
release = metadata.version("visr")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "reference_pages"]
exclude_patterns = ["images/README.md"]
nitpicky = False
default_role = "code"  # docstrings write `name` for code

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
suppress_warnings = ["myst.header"]  # included files start with their own title
nb_execution_mode = "off"  # notebooks hold their outputs; tests/test_notebooks.py runs them

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = "visr"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
copybutton_prompt_text = ">>> "
