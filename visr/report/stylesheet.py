"""The page's style sheet as text."""

from importlib import resources

CSS = (resources.files("visr.report") / "templates" / "style.css").read_text("utf-8")
