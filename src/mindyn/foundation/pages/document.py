"""Render sections as one HTML text that contains its style and scripts.

All texts are escaped; only `Html` is inserted unchanged, so that no text can change the structure of the page.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from math import isfinite
from re import sub
from typing import Any, Final

from mindyn.foundation.escaping import keep_units_together

Attributes = Mapping[str, str | bool]
VOID_TAGS: Final = ("input", "meta")
MINUS: Final = "\u2212"
NO_BREAK_SPACE: Final = "\u00a0"
"""Space that does not break a line."""
THIN_SPACE: Final = "\u202f"
"""Space between thousands that does not break a line."""
SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Html(str):
    """HTML text, which is inserted without escaping."""

    __slots__ = ()


Content = Html | str | Iterable["Content"]


def to_html(content: Content) -> Html:
    """Return the content as HTML: escape texts, keep `Html`, join sequences."""
    if isinstance(content, Html):
        return content
    return Html(escape(content)) if isinstance(content, str) else Html("".join(to_html(part) for part in content))


def tag(name: str, attributes: Attributes | None = None, *content: Content) -> Html:
    """Return an element; an attribute that is True has no value, one that is False is omitted."""
    written = "".join(
        f" {key}" if value is True else f' {key}="{escape(str(value))}"'
        for key, value in (attributes or {}).items()
        if value is not False
    )
    return Html(f"<{name}{written}>" if name in VOID_TAGS else f"<{name}{written}>{to_html(content)}</{name}>")


def class_tag(name: str, kind: str, *content: Content) -> Html:
    """Return an element with a class attribute."""
    return tag(name, {"class": kind}, *content)


def p(*content: Content) -> Html:
    """Return a paragraph."""
    return tag("p", {}, *content)


def card(title: str, content: Sequence[Content]) -> Html:
    """Return a box with a title."""
    return class_tag("div", "card", tag("h3", {}, title), content)


class Section:
    """Section of a page: its content as HTML, and its plots by the names that its figures use."""

    def __init__(self, key: str, title: str, content: Content, plots: Mapping[str, Any] | None = None) -> None:
        self.key, self.title, self.body, self.plots = key, title, to_html(content), plots or {}


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table; numbers are aligned to the right."""

    title: str
    number: bool = False
    sortable: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[Content]], caption: str) -> Html:
    """Return a table; the first cell of every row is its heading."""
    return _wrap_table(columns, [tag("tbody", {}, [_row(columns, row) for row in rows])], caption, {"class": "scroll"})


def annotated_table(
    columns: Sequence[Column], rows: Sequence[tuple[Sequence[Content], str]], caption: str, key: str
) -> Html:
    """Return a long table that also scrolls vertically; a note can follow each row."""
    bodies = []
    for row, note in rows:
        text = tag("td", {"colspan": str(len(columns)), "class": "below"}, tag("span", {}, note))
        bodies.append(tag("tbody", {}, _row(columns, row), tag("tr", {}, text) if note else ""))
    return _wrap_table(columns, bodies, caption, {"class": "scroll tall", "id": key})


def _wrap_table(columns: Sequence[Column], bodies: Sequence[Html], caption: str, frame: Attributes) -> Html:
    """Put a table into a frame in which wide tables scroll, also with the keyboard."""
    head = tag("thead", {}, tag("tr", {}, [_heading(column) for column in columns]))
    content = tag("table", {}, tag("caption", {}, caption), head, bodies)
    return tag("div", {**frame, "role": "region", "aria-label": caption, "tabindex": "0"}, content)


def _row(columns: Sequence[Column], cells: Sequence[Content]) -> Html:
    pairs = zip(columns, cells, strict=True)
    return tag("tr", {}, [_cell(column, k, cell) for k, (column, cell) in enumerate(pairs)])


def _heading(column: Column) -> Html:
    label = class_tag("button", "sort", column.title) if column.sortable else to_html(column.title)
    return tag("th", {"scope": "col", **({"class": "number"} if column.number else {})}, label)


def _cell(column: Column, index: int, content: Content) -> Html:
    if index == 0:
        return tag("th", {"scope": "row"}, content)
    return tag("td", {"class": "number"} if column.number else {}, content)


def tabs(key: str, label: str, panels: Sequence[tuple[str, Content]]) -> Html:
    """Return panels of which one is visible, selected by title; the arrow keys cycle through them."""
    heads = [
        tag(
            "button",
            {
                "role": "tab",
                "id": f"{key}-tab-{k}",
                "aria-controls": f"{key}-panel-{k}",
                "aria-selected": "true" if k == 0 else "false",
                "tabindex": "0" if k == 0 else "-1",
            },
            title,
        )
        for k, (title, _) in enumerate(panels)
    ]
    bodies = [
        tag(
            "div",
            {"role": "tabpanel", "id": f"{key}-panel-{k}", "aria-labelledby": f"{key}-tab-{k}", "hidden": k > 0},
            tag("h3", {"class": "panel-title"}, title),
            body,
        )
        for k, (title, body) in enumerate(panels)
    ]
    return class_tag("div", "tabs", tag("div", {"role": "tablist", "aria-label": label}, heads), bodies)


def legend(*keys: tuple[str, str, str]) -> Html:
    """Return the legend of several plots: name, role and kind of each key."""
    items = [
        class_tag("li", f"key role-{role} kind-{kind}", class_tag("span", "swatch"), name) for name, role, kind in keys
    ]
    return class_tag("ul", "legend", items)


def figure(plot: str, label: str, caption: Content, *, shape: str = "wide", log: int | None = None) -> Html:
    """Return an empty figure for a plot, with a caption that describes it."""
    area = tag("div", {"class": "area", "data-label": label})
    chosen: Attributes = {} if log is None else {"data-log": str(log), "hidden": log > 0}
    return tag("figure", {"class": f"plot {shape}", "data-plot": plot, **chosen}, area, tag("figcaption", {}, caption))


def format_number(value: float | None, digits: int = 4) -> str:
    """Format a number with significant digits, using powers of ten if it is very large or small."""
    if value is None or not isfinite(value):
        return "–"
    if value == 0:
        return "0"
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    exponent = int(power)
    if -4 <= exponent < 6:
        return f"{value:,.{max(0, digits - 1 - exponent)}f}".replace(",", THIN_SPACE).replace("-", MINUS)
    return f"{mantissa}·10{_superscript(exponent)}".replace("-", MINUS)


def format_quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """Format a number and its unit without a line break between them."""
    return f"{format_number(value, digits)} {unit}".replace(" ", NO_BREAK_SPACE)


def typeset(text: str) -> str:
    """Typeset minus signs, powers, units and thousands of a plain text: `-1e-05 kg m^2` becomes `−1·10⁻⁵ kg m²`."""
    powers = sub(r"(?<![\w.])(-?\d+(?:\.\d+)?)e([+-]?\d+)\b", lambda m: f"{m[1]}·10{_superscript(int(m[2]))}", text)
    grouped = sub(r"(?<![\w.])\d{5,}(?![\w.]*\w)", lambda m: format_count(int(m[0])), powers)
    return sub(r"\^(\d)", lambda m: _superscript(int(m[1])), sub(r"(?<![^\s(=,])-(?=\d)", MINUS, grouped))


OPTION_WORD: Final = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


def typeset_sentence(text: str) -> list[Content]:
    """Typeset a sentence of the terminal; numbers stay on one line with their units, and options are not broken."""
    parts = OPTION_WORD.split(typeset(keep_units_together(text)))
    return [class_tag("span", "option", part) if k % 2 else part for k, part in enumerate(parts)]


def _superscript(exponent: int) -> str:
    return str(exponent).translate(SUPERSCRIPTS)


def format_percent(value: float) -> str:
    """Format a fraction as percent with three digits."""
    if not isfinite(value):
        return "–"
    shown = format_count(round(100 * value)) if value >= 10 else f"{100 * value:.3g}"
    return f"{shown}{NO_BREAK_SPACE}%"


def format_count(value: int) -> str:
    """Format an integer with thin spaces between thousands."""
    return f"{value:,}".replace(",", THIN_SPACE)


def format_plural(value: int, word: str) -> str:
    """Format a count and its noun: `1 log`, `2 logs`."""
    return f"{format_count(value)} {word}" if value == 1 else f"{format_count(value)} {word}s"


PAGE_SCRIPTS: Final = ("axes.js", "download.js", "plot.js", "page.js")


@dataclass(frozen=True, slots=True)
class Extras:
    """Style and scripts that a page has in addition, as text; the scripts run last."""

    style: str = ""
    scripts: tuple[str, ...] = ()


def render_document(
    title: str, subtitle: str, sections: Sequence[Section], *, heading: str | None = None, extras: Extras | None = None
) -> str:
    """Return the whole page: a fixed header, the navigation, the sections, and the numbers of their plots.

    title     of the window, and of the page unless `heading` is given
    subtitle  line below the title
    extras    style and scripts that mindyn wrote for this kind of page
    """
    extras = Extras() if extras is None else extras
    style, texts = _asset("page.css") + extras.style, (*map(_asset, PAGE_SCRIPTS), *extras.scripts)
    head = [
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": content_security_policy(style, texts)}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("meta", {"name": "color-scheme", "content": "light dark"}),
        tag("title", {}, title),
        tag("style", {}, Html(style)),
    ]
    scripts = [tag("script", {}, Html(text)) for text in texts]
    space = tag("svg", {"id": "space", "hidden": True})
    top = _header(title if heading is None else heading, subtitle, sections[0])
    body = [top, _navigation(sections), _main(sections), render_plot_numbers(sections), space, *scripts]
    return f"<!doctype html>\n{tag('html', {'lang': 'en'}, tag('head', {}, head), tag('body', {}, body))}\n"


def content_security_policy(style: str, scripts: Sequence[str]) -> str:
    """Return the security policy of the page: the browser loads nothing, and uses only the given scripts and the given
    style.
    """
    hashes = " ".join(map(_hash, scripts))
    return f"default-src 'none'; style-src {_hash(style)}; script-src {hashes}; img-src data:"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files("mindyn.foundation.pages").joinpath("assets", name).read_text(encoding="utf-8")


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
