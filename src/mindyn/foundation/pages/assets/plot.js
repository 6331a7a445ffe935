"use strict";
/* Plots: panes on a common x axis, drawn at once, so that screenshots and archives hold them; zoom by drag, buttons or keys; the legend switches
   curves, and all plots of a group show the values at the pointer. */
const LEFT = 68, RIGHT = 10, TOP = 10, BELOW = 40, BETWEEN = 18;
const CHARACTER = 6, PRINT_WIDTH = 680, PRINT_TALLEST = 720; /* width of a character of an axis title; size on A4 paper below a heading */
const LARGEST_RATIO = 1e8; /* of the ends of a logarithmic axis: smaller values are rounding */
const ranges = new Map(); /* x ranges of groups of plots that zoom together */

class Plot {
  constructor(figure, spec) {
    Object.assign(this, { figure, spec, area: figure.querySelector(".area"), hidden: new Set() });
    this.group = spec.group || figure.dataset.plot;
    this.buildBar();
    this.buildArea();
  }

  buildBar() {
    this.bar = Page.make("div", "bar");
    this.legend = Page.make("ul", "legend");
    this.values = new Map();
    const named = new Map(); /* the bands of all panes share one key */
    for (const series of this.spec.panes.flatMap((pane) => pane.series)) {
      if (series.kind === "cells") continue;
      const alike = series.kind === "band" ? `${series.name} ${series.role}` : series;
      if (named.has(alike)) { named.get(alike).push(series); this.values.set(series, Page.make("span")); continue; }
      named.set(alike, [series]);
      const item = Page.make("li", `key role-${series.role} kind-${series.kind}`);
      const value = Page.make("span", "value");
      item.append(this.toggle(series, named.get(alike)), value);
      this.values.set(series, value);
      this.legend.append(item);
    }
    const small = this.figure.classList.contains("small"); /* these share a legend */
    if (this.values.size && !small) this.bar.append(this.legend);
    this.bar.append(this.tools());
    this.area.before(this.bar);
  }

  /* Create a button that shows or hides one curve, or all bands of one name. */
  toggle(series, alike) {
    const button = Page.make("button", "toggle");
    button.type = "button";
    button.append(Page.make("span", "swatch"), document.createTextNode(series.name));
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const hide = !this.hidden.has(series);
      for (const curve of alike) hide ? this.hidden.add(curve) : this.hidden.delete(curve);
      button.setAttribute("aria-pressed", String(!this.hidden.has(series)));
      this.draw();
    });
    return button;
  }
  shown(pane) { return pane.series.filter((series) => !this.hidden.has(series)); }

  tools() {
    const tools = Page.make("div", "tools");
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", `${this.area.dataset.label}: zoom and download`);
    if (this.spec.group && !this.figure.classList.contains("small")) {
      tools.append(
        Page.button("+", "Zoom in", () => this.zoomBy(0.5)),
        Page.button("−", "Zoom out", () => this.zoomBy(2)),
        Page.button("All", "Show all", () => this.setRange(null)),
      );
    }
    tools.append(Download.menu(this));
    return tools;
  }

  buildArea() {
    this.svg = Svg.add(this.area, "svg", { role: "img", "aria-label": this.area.dataset.label });
    this.tip = Page.make("div", "tip");
    this.tip.hidden = true;
    this.area.append(this.tip);
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", () => Plot.together(this).forEach((plot) => plot.leave()));
    if (!this.spec.group) return;
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "group");
    this.area.setAttribute("aria-label", `${this.area.dataset.label}; plus, minus, arrow keys and 0 zoom`);
    this.area.classList.add("zoomable");
    this.listen();
  }

  /* --- range of x ------------------------------------------------------------------------------------------- */
  extent() {
    if (!this.whole) {
      const firsts = this.spec.panes.flatMap((pane) => pane.series).map((series) => Packing.array(series.x));
      this.whole = this.spec.x.range || [Math.min(...firsts.map((x) => x[0])), Math.max(...firsts.map((x) => x[x.length - 1]))];
      if (this.whole[0] === this.whole[1]) this.whole[1] += 1;
    }
    return this.whole;
  }
  range() {
    return ranges.get(this.group) || this.extent();
  }
  setRange(range) {
    if (range) {
      const [low, high] = this.extent();
      const least = (high - low) / 1e5;
      const from = Math.max(low, Math.min(range[0], high - least));
      range = [from, Math.min(high, Math.max(range[1], from + least))];
    }
    if (range && (range[1] - range[0]) / (this.extent()[1] - this.extent()[0]) < 0.999) ranges.set(this.group, range);
    else ranges.delete(this.group);
    Plot.all.filter((plot) => plot.group === this.group).forEach((plot) => plot.refresh());
  }
  zoomBy(factor, centre = null) {
    const [low, high] = this.range();
    const middle = centre ?? (low + high) / 2;
    this.setRange([middle - (middle - low) * factor, middle + (high - middle) * factor]);
  }
  pan(part) {
    const [low, high] = this.range();
    const [first, last] = this.extent();
    const step = Math.max(first - low, Math.min(last - high, part * (high - low)));
    this.setRange([low + step, high + step]);
  }

  /* --- drawing ---------------------------------------------------------------------------------------------- */
  refresh() {
    this.stale = true;
    if (this.area.clientWidth > 0 && this.seen) this.draw();
  }
  draw(width = this.area.clientWidth, paper = false) {
    if (!width) return;
    this.stale = false;
    this.seen = true;
    this.svg.replaceChildren();
    const scaled = width < 420 ? 0.85 : 1;
    const panes = this.spec.panes;
    const glance = this.figure.classList.contains("small") && panes.length > 1 ? 0.42 : 1;
    const sheet = (pane) => (pane.y.names ? Math.min(0.62, PRINT_TALLEST / pane.height) : panes.length > 1 ? Math.max(0.5, Math.min(1, 76 / pane.height)) : 0.7);
    const heights = panes.map((pane) => Math.round(pane.height * (paper ? sheet(pane) : scaled * glance)));
    this.left = this.margin(heights);
    const total = TOP + heights.reduce((a, b) => a + b) + BETWEEN * (panes.length - 1) + BELOW;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${total}`);
    this.svg.style.aspectRatio = `${width} / ${total}`;
    const [low, high] = this.range();
    this.x = new Scale(low, high, this.left, width - RIGHT, this.spec.x.log);
    this.rows = [];
    this.bottom = total - BELOW;
    let top = TOP;
    panes.forEach((pane, k) => {
      this.drawPane(pane, top, heights[k], width, k === panes.length - 1);
      top += heights[k] + BETWEEN;
    });
    this.line = Svg.add(this.svg, "line", { class: "cursor", y1: TOP, y2: this.bottom, visibility: "hidden" });
    this.box = Svg.add(this.svg, "rect", { class: "box", y: TOP, height: this.bottom - TOP, visibility: "hidden" });
  }

  /* Return the width left of the panes: names of rows, or the longest number and the title. */
  margin(heights) {
    const panes = this.spec.panes;
    if (panes.some((pane) => pane.y.names)) return 110;
    const texts = panes.flatMap((pane, k) => this.yScale(pane, 0, heights[k]).ticks(Math.max(4, heights[k] / 42)));
    return Math.max(LEFT, 30 + 6.8 * Math.max(...texts.map((tick) => tick.text.length)));
  }

  drawPane(pane, top, height, width, last) {
    const y = this.yScale(pane, top, height), LEFT = this.left;
    this.rows.push({ pane, y, top, height });
    const clip = `clip-${Plot.all.indexOf(this)}-${this.spec.panes.indexOf(pane)}`;
    Svg.add(Svg.add(this.svg, "clipPath", { id: clip }), "rect", { x: LEFT, y: top, width: Math.max(1, width - LEFT - RIGHT), height });
    const named = pane.y.names?.map((text, value) => ({ value, text }));
    for (const tick of named || y.ticks(Math.max(4, height / 42))) {
      const at = y.at(tick.value);
      Svg.add(this.svg, "line", { class: Math.abs(tick.value) < 1e-12 && !y.log && !named ? "zero" : "rule", x1: LEFT, x2: width - RIGHT, y1: at, y2: at });
      Svg.add(this.svg, "text", { class: "tick", x: LEFT - 8, y: at + 4, "text-anchor": "end" }, tick.text);
    }
    const fixed = this.spec.x.ticks?.map(([value, text]) => ({ value, text }));
    for (const tick of this.x.apart(fixed || this.x.ticks(Math.max(3, (width - LEFT) / 85)))) {
      const at = this.x.at(tick.value);
      Svg.add(this.svg, "line", { class: "rule", x1: at, x2: at, y1: top, y2: top + height });
      if (last) Svg.add(this.svg, "text", { class: "tick", x: at, y: top + height + 17, "text-anchor": tick.anchor }, tick.text);
    }
    const title = pane.y.unit ? `${pane.y.label}, ${pane.y.unit}` : pane.y.label;
    const lines = named ? [] : title.length * CHARACTER > height + BETWEEN && pane.y.unit ? [pane.y.label, pane.y.unit] : [title];
    lines.forEach((line, k) => Svg.add(this.svg, "text", { class: "axis", transform: `translate(${16 - 3 * lines.length + 13 * k} ${top + height / 2}) rotate(-90)`, "text-anchor": "middle" }, line));
    if (last) Svg.add(this.svg, "text", { class: "axis", x: (LEFT + width - RIGHT) / 2, y: top + height + 35, "text-anchor": "middle" }, this.spec.x.unit ? `${this.spec.x.label}, ${this.spec.x.unit}` : this.spec.x.label);
    const inside = Svg.add(this.svg, "g", { "clip-path": `url(#${clip})` });
    for (const [from, to] of this.spec.shaded) {
      const left = this.x.at(from);
      Svg.add(inside, "rect", { class: "shaded", x: left, y: top, width: Math.max(1, this.x.at(to) - left), height });
    }
    for (const series of this.shown(pane)) this.drawSeries(inside, series, y);
  }

  yScale(pane, top, height) {
    let low = Infinity, high = -Infinity;
    if (pane.y.names) return new Scale(-0.6, pane.y.names.length - 0.4, top, top + height, false);
    for (const series of this.shown(pane)) {
      const [from, to] = series.kind === "cells" ? [0, 1] : this.visible(series);
      for (const values of [series.y, series.y2].filter(Boolean).map(Packing.array)) {
        for (let k = from; k <= Math.min(to, values.length - 1); k++) {
          if (pane.y.log && !(values[k] > 0)) continue;
          if (values[k] < low) low = values[k];
          if (values[k] > high) high = values[k];
        }
      }
    }
    if (!(high >= low)) [low, high] = pane.y.log ? [0.1, 10] : [0, 1];
    if (pane.zero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    if (low === high && !pane.y.log) [low, high] = [low - (Math.abs(low) || 1), high + (Math.abs(high) || 1)];
    if (pane.y.log) low = Math.max(low, high / LARGEST_RATIO);
    if (pane.y.log) return new Scale(low / 1.6, high * 1.6, top + height, top, true);
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    const cells = pane.series[0].kind === "cells" ? 0 : room;
    return new Scale(low === 0 && pane.zero ? 0 : low - cells, high === 0 && pane.zero ? 0 : high + cells, top + height, top, false);
  }

  /* Return the first and last point of a series in the x range. */
  visible(series) {
    const x = Packing.array(series.x);
    const [low, high] = this.range();
    return [Math.max(0, Plot.search(x, low) - 1), Math.min(x.length - 1, Plot.search(x, high))];
  }
  static search(x, value) {
    let low = 0, high = x.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  drawSeries(parent, series, y) {
    const make = {
      line: () => this.linePath(series, series.y, y), band: () => this.bandPath(series, y), bars: () => this.barPath(series, y),
      points: () => this.pointPath(series, y), intervals: () => this.intervalPath(series, y),
    }[series.kind];
    if (!make) return this.drawCells(parent, series, y);
    return Svg.add(parent, "path", { class: `curve role-${series.role} kind-${series.kind}`, d: make() });
  }
  linePath(series, values, y) {
    return "M" + this.points(series, Packing.array(values), y).join("L");
  }
  bandPath(series, y) {
    const low = this.points(series, Packing.array(series.y), y);
    const high = this.points(series, Packing.array(series.y2), y);
    return "M" + low.concat(high.reverse()).join("L") + "Z";
  }
  /* Keep the least and the greatest of the points that share a column of pixels. */
  points(series, values, y) {
    const x = Packing.array(series.x);
    const [from, to] = this.visible(series);
    const points = [];
    const put = (at, value) => points.push(`${at.toFixed(1)} ${y.at(y.log ? Math.max(value, y.low / 10) : value).toFixed(1)}`);
    if (to - from < 2.5 * (this.x.to - this.x.from)) {
      for (let k = from; k <= to; k++) put(this.x.at(x[k]), values[k]);
      return points;
    }
    let column = null, first = 0, last = 0;
    const flush = () => { put(column, values[Math.min(first, last)]); put(column, values[Math.max(first, last)]); };
    for (let k = from; k <= to; k++) {
      const at = Math.round(this.x.at(x[k]));
      if (at !== column) {
        if (column !== null) flush();
        [column, first, last] = [at, k, k];
      }
      if (values[k] < values[first]) first = k;
      if (values[k] > values[last]) last = k;
    }
    flush();
    return points;
  }
  /* Draw every point as a dot. */
  pointPath(series, y) {
    const x = Packing.array(series.x), values = Packing.array(series.y);
    let path = "";
    for (let k = 0; k < x.length; k++) path += `M${this.x.at(x[k]).toFixed(1)} ${y.at(values[k]).toFixed(1)}h0`;
    return path;
  }
  /* Draw a bar from low to high and a dot at the value, row by row; several series of a pane are stacked. */
  intervalPath(series, y) {
    const at = (value) => Math.max(this.x.from, Math.min(this.x.to, this.x.at(value))).toFixed(1);
    return series.x.map((value, k) => {
      const row = y.at(series.y[k]).toFixed(1), low = series.low[k], high = series.high[k];
      const bar = low === null ? "" : `M${at(low)} ${row}H${at(high)}`;
      return `${bar}M${at(value)} ${row}m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`;
    }).join("");
  }
  barPath(series, y) {
    const edges = Packing.array(series.x), base = y.at(0).toFixed(1);
    return Packing.array(series.y).map((value, k) => {
      const left = this.x.at(edges[k]), right = this.x.at(edges[k + 1]);
      return `M${(left + 0.5).toFixed(1)} ${base}V${y.at(value).toFixed(1)}H${(right - 0.5).toFixed(1)}V${base}Z`;
    }).join("");
  }
  drawCells(parent, series, y) {
    const rows = series.rows, [left, right] = [this.x.from, this.x.to], [bottom, top] = [y.at(y.low), y.at(y.high)];
    const wide = (right - left) / rows[0].length, high = (top - bottom) / rows.length;
    for (let level = 1; level <= 9; level++) {
      let path = "";
      rows.forEach((row, i) => [...row].forEach((cell, j) => {
        if (Number(cell) === level) path += `M${(left + j * wide).toFixed(1)} ${(bottom + i * high).toFixed(1)}h${wide.toFixed(2)}v${high.toFixed(2)}h${(-wide).toFixed(2)}Z`;
      }));
      if (path) Svg.add(parent, "path", { class: "cell", d: path, "fill-opacity": (0.12 + 0.09 * level).toFixed(2) });
    }
  }

  /* --- pointer and keys ------------------------------------------------------------------------------------- */
  listen() {
    let start = null;
    const place = (event) => (event.clientX - this.svg.getBoundingClientRect().left);
    this.svg.addEventListener("pointerdown", (event) => { start = place(event); this.svg.setPointerCapture(event.pointerId); });
    this.svg.addEventListener("pointermove", (event) => {
      if (!this.x) return;
      const now = place(event);
      if (start === null || Math.abs(now - start) < 4) return;
      const [from, to] = [Math.min(start, now), Math.max(start, now)].map((at) => Math.max(this.x.from, Math.min(this.x.to, at)));
      for (const [key, value] of [["x", from], ["width", to - from], ["visibility", "visible"]]) this.box.setAttribute(key, value);
    });
    const drop = () => { start = null; this.box?.setAttribute("visibility", "hidden"); };
    this.svg.addEventListener("pointerup", (event) => {
      const end = place(event), from = start;
      drop();
      if (from !== null && Math.abs(end - from) > 8) this.setRange([this.x.back(Math.min(from, end)), this.x.back(Math.max(from, end))]);
    });
    this.svg.addEventListener("pointercancel", drop);
    this.svg.addEventListener("dblclick", () => this.setRange(null));
    this.area.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, this.x.back(place(event)));
    }, { passive: false });
    this.area.addEventListener("keydown", (event) => {
      const act = { "+": () => this.zoomBy(0.5), "=": () => this.zoomBy(0.5), "-": () => this.zoomBy(2), 0: () => this.setRange(null),
        ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25) }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
  }

  /* --- values under the pointer ----------------------------------------------------------------------------- */
  hover(event) {
    if (!this.x) return;
    const box = this.svg.getBoundingClientRect(), scale = this.svg.viewBox.baseVal.width / box.width;
    const [at, height] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    if (at < this.x.from || at > this.x.to) return this.leave();
    const row = this.rows.find((candidate) => candidate.pane.y.names && height >= candidate.top && height <= candidate.top + candidate.height);
    if (row) return this.showTip(at, this.ofRow(row, Math.round(row.y.back(height))));
    for (const plot of Plot.together(this)) if (plot.x && plot.area.clientWidth) plot.read(this.x.back(at));
  }
  /* Show x and the value of every visible curve there. */
  read(value) {
    const at = this.x.at(value), lines = [`${this.spec.x.label} ${shortNumber(value)} ${this.spec.x.unit}`];
    for (const pane of this.spec.panes) {
      for (const series of this.shown(pane)) {
        if (!["line", "band", "bars"].includes(series.kind)) continue;
        const x = Packing.array(series.x), y = Packing.array(series.y);
        const after = Math.min(x.length - 1, Plot.search(x, value));
        const nearer = after > 0 && series.kind !== "bars" && value - x[after - 1] < x[after] - value ? after - 1 : after;
        const k = series.kind === "bars" ? Math.max(0, Math.min(y.length - 1, after - 1)) : nearer;
        const upper = series.y2 ? ` to ${shortNumber(Packing.array(series.y2)[k])}` : "";
        const text = `${shortNumber(y[k])}${upper} ${pane.y.unit}`;
        this.values.get(series).textContent = text;
        lines.push(`${series.name} ${text}`);
      }
    }
    this.showTip(at, lines);
  }
  /* Show the values of a parameter in all estimates. */
  ofRow({ pane }, k) {
    const lines = pane.y.names[k] === undefined ? [] : [pane.y.names[k]];
    for (const series of this.shown(pane)) {
      const place = series.y.findIndex((row) => Math.round(row) === k);
      if (place >= 0) lines.push(`${series.name} ${series.texts[place]}`);
    }
    return lines;
  }
  showTip(at, lines) {
    for (const [key, value] of [["x1", at], ["x2", at], ["visibility", "visible"]]) this.line.setAttribute(key, value);
    this.tip.replaceChildren(...lines.map((line) => Page.make("div", "", line)));
    this.tip.hidden = lines.length === 0;
    const right = at > (this.x.from + this.x.to) / 2, scale = this.area.clientWidth / this.svg.viewBox.baseVal.width;
    this.tip.style.left = right ? "" : `${at * scale + 14}px`;
    this.tip.style.right = right ? `${this.area.clientWidth - at * scale + 14}px` : "";
  }
  leave() {
    this.tip.hidden = true;
    this.line?.setAttribute("visibility", "hidden");
    for (const value of this.values.values()) value.textContent = "";
  }
  static together(plot) {
    return plot.spec.group ? Plot.all.filter((other) => other.group === plot.group) : [plot];
  }

  static all = [];
  static start() {
    Plot.all = [...document.querySelectorAll("figure[data-plot]")].map((figure) => new Plot(figure, Numbers[figure.dataset.plot]));
    const byArea = new Map(Plot.all.map((plot) => [plot.area, plot]));
    const sized = new ResizeObserver((entries) => entries.forEach((entry) => {
      const plot = byArea.get(entry.target), width = Math.round(entry.contentRect.width);
      if (width && (width !== plot.width || plot.stale)) { plot.width = width; plot.draw(); }
    }));
    for (const area of byArea.keys()) sized.observe(area); /* also reports areas that become visible */
    addEventListener("beforeprint", () => Plot.all.forEach((plot) => plot.draw(PRINT_WIDTH / (plot.figure.closest(".tabs, .grid, .pair, .forest") ? 2 : 1), true)));
    addEventListener("afterprint", () => Plot.all.forEach((plot) => plot.refresh()));
  }
}
