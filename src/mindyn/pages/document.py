"""Render sections as one HTML text that contains its style and scripts."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from mindyn.pages.markup import Html, Section, class_tag, tag

PAGE_SCRIPTS: Final = ("axes.js", "download.js", "plot.js", "meshes.js", "robot.js", "page.js")


def render_document(title: str, subtitle: str, sections: Sequence[Section], *, heading: str | None = None) -> str:
    """Return the whole page: a fixed header, navigation, the sections, and the numbers of their plots.

    title     of the window, and of the page unless `heading` is given
    subtitle  line below the title
    """
    head = [
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": content_security_policy()}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("meta", {"name": "color-scheme", "content": "light dark"}),
        tag("title", {}, title),
        tag("style", {}, Html(_asset("page.css"))),
    ]
    scripts = [tag("script", {}, Html(_asset(name))) for name in PAGE_SCRIPTS]
    space = tag("svg", {"id": "space", "hidden": True})
    top = _header(title if heading is None else heading, subtitle, sections[0])
    body = [top, _navigation(sections), _main(sections), render_plot_numbers(sections), space, *scripts]
    return f"<!doctype html>\n{tag('html', {'lang': 'en'}, tag('head', {}, head), tag('body', {}, body))}\n"


def content_security_policy() -> str:
    """Return the policy: the browser loads nothing, and runs and applies only scripts and styles that mindyn wrote."""
    scripts = " ".join(map(_hash, PAGE_SCRIPTS))
    return f"default-src 'none'; style-src {_hash('page.css')}; script-src {scripts}; img-src data:"


def _hash(name: str) -> str:
    return f"'sha256-{b64encode(sha256(_asset(name).encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files("mindyn.pages").joinpath("assets", name).read_text(encoding="utf-8")


def _header(heading: str, subtitle: str, first: Section) -> Html:
    skip = tag("a", {"class": "skip", "href": f"#{first.key}"}, "Skip to the content")
    theme = tag("button", {"id": "theme", "type": "button", "aria-label": "Dark theme", "aria-pressed": "false"}, "◐")
    shown = class_tag("div", "title", tag("h1", {}, heading), class_tag("p", "fine", subtitle))
    return tag("header", {}, skip, shown, theme)


def _navigation(sections: Sequence[Section]) -> Html:
    links = [tag("li", {}, tag("a", {"href": f"#{section.key}"}, section.title)) for section in sections]
    return tag("nav", {"aria-label": "Sections"}, tag("ol", {}, links))


def _main(sections: Sequence[Section]) -> Html:
    no_script = tag("noscript", {}, class_tag("p", "note", "Plots need JavaScript, which is disabled in this browser."))
    return tag("main", {}, no_script, [_section(section) for section in sections])


def _section(section: Section) -> Html:
    title_id = f"{section.key}-title"
    heading = tag("h2", {"id": title_id}, section.title)
    return tag("section", {"id": section.key, "aria-labelledby": title_id}, heading, section.body)


def render_plot_numbers(sections: Sequence[Section]) -> Html:
    """Return the numbers of all plots as JSON, escaped so that they cannot end the script element."""
    plots: dict[str, Any] = {"shared": {}}
    for section in sections:
        plots["shared"] |= section.plots.get("shared", {})
        plots |= {key: value for key, value in section.plots.items() if key != "shared"}
    text = json.dumps(plots, default=_to_json_value, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("script", {"type": "application/json", "id": "plots"}, Html(safe))


def _to_json_value(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"a page cannot contain a {type(value).__name__}")
