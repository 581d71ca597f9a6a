"""A report as one HTML page: no script, nothing loaded, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

_STYLE = """
body { font-family: sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #222; }
pre { background: #f5f5f5; padding: 0.8em; overflow-x: auto; font-size: 0.85em; }
nav a { margin-right: 1.2em; }
svg { width: 100%; height: auto; }
summary { cursor: pointer; font-weight: bold; margin: 0.6em 0; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Part:
    """A part of a page: a paragraph, text as it is, and a drawing, an `<svg>` element that its
    maker has escaped. `folded`: shown when clicked."""

    title: str
    paragraph: str = ""
    text: str = ""
    drawing: str = ""
    folded: bool = False


def page(title: str, parts: Iterable[Part]) -> str:
    """The page, with a list of its parts in front."""
    made = list(parts)
    links = [f'<a href="#part{k}">{escape(part.title)}</a>' for k, part in enumerate(made)]
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<nav>{''.join(links)}</nav>",
        *(_part(part, k) for k, part in enumerate(made)),
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def _part(part: Part, number: int) -> str:
    lines = [f'<h2 id="part{number}">{escape(part.title)}</h2>']
    if part.paragraph:
        lines.append(f"<p>{escape(part.paragraph)}</p>")
    if part.drawing:
        lines.append(part.drawing)
    if part.text and part.folded:
        count = part.text.count("\n") + 1
        lines.append(f"<details><summary>{count} lines</summary>{_text(part.text)}</details>")
    elif part.text:
        lines.append(_text(part.text))
    return "\n".join(lines)


def _text(text: str) -> str:
    return f"<pre>{escape(text.rstrip())}</pre>"
