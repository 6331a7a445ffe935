"use strict";
/* Plots: panes over a common x axis, drawn when first seen, zoomed by drag, buttons or keys. */
const LEFT = 68, RIGHT = 10, TOP = 10, BELOW = 40, BETWEEN = 18;
const PRINT_WIDTH = 680;
const ranges = new Map(); /* of groups of plots that are zoomed together */

class Plot {
  constructor(figure, spec) {
    Object.assign(this, { figure, spec, area: figure.querySelector(".area"), cursor: null });
    this.group = spec.group || figure.dataset.plot;
    this.buildBar();
    this.buildArea();
  }

  buildBar() {
    this.bar = Page.make("div", "bar");
    this.legend = Page.make("ul", "legend");
    this.values = new Map();
    for (const series of this.spec.panes.flatMap((pane) => pane.series)) {
      if (series.kind === "cells") continue;
      const item = Page.make("li", `key role-${series.role} kind-${series.kind}`);
      item.append(Page.make("span", "swatch"), document.createTextNode(series.name));
      const value = Page.make("span", "value");
      item.append(value);
      this.values.set(series, value);
      this.legend.append(item);
    }
    const small = this.figure.classList.contains("small"); /* these share a legend */
    if (this.values.size && !small) this.bar.append(this.legend);
    if (this.spec.group) this.bar.append(this.tools());
    if (this.bar.childNodes.length) this.area.before(this.bar);
  }

  tools() {
    const made = Page.make("div", "tools");
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", "Zoom");
    made.append(
      Page.button("+", "Zoom in", () => this.zoomBy(0.5)),
      Page.button("−", "Zoom out", () => this.zoomBy(2)),
      Page.button("All", "Show all", () => this.setRange(null)),
    );
    return made;
  }

  buildArea() {
    this.svg = Svg.add(this.area, "svg", { role: "img", "aria-label": this.area.dataset.label });
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
      this.whole = [Math.min(...firsts.map((x) => x[0])), Math.max(...firsts.map((x) => x[x.length - 1]))];
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
  draw(width = this.area.clientWidth) {
    if (!width) return;
    this.stale = false;
    this.seen = true;
    this.svg.replaceChildren();
    const scaled = width < 420 ? 0.85 : 1;
    const panes = this.spec.panes;
    const heights = panes.map((pane) => Math.round(pane.height * scaled));
    const total = TOP + heights.reduce((a, b) => a + b) + BETWEEN * (panes.length - 1) + BELOW;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${total}`);
    this.svg.style.aspectRatio = `${width} / ${total}`;
    const [low, high] = this.range();
    this.x = new Scale(low, high, LEFT, width - RIGHT, this.spec.x.log);
    this.bottom = total - BELOW;
    let top = TOP;
    panes.forEach((pane, k) => {
      this.drawPane(pane, top, heights[k], width, k === panes.length - 1);
      top += heights[k] + BETWEEN;
    });
    this.line = Svg.add(this.svg, "line", { class: "cursor", y1: TOP, y2: this.bottom, visibility: "hidden" });
    this.box = Svg.add(this.svg, "rect", { class: "box", y: TOP, height: this.bottom - TOP, visibility: "hidden" });
  }

  drawPane(pane, top, height, width, last) {
    const y = this.yScale(pane, top, height);
    const clip = `clip-${Plot.all.indexOf(this)}-${this.spec.panes.indexOf(pane)}`;
    Svg.add(Svg.add(this.svg, "clipPath", { id: clip }), "rect", { x: LEFT, y: top, width: Math.max(1, width - LEFT - RIGHT), height });
    for (const tick of y.ticks(Math.max(4, height / 42))) {
      const at = y.at(tick.value);
      Svg.add(this.svg, "line", { class: Math.abs(tick.value) < 1e-12 && !y.log ? "zero" : "rule", x1: LEFT, x2: width - RIGHT, y1: at, y2: at });
      Svg.add(this.svg, "text", { class: "tick", x: LEFT - 8, y: at + 4, "text-anchor": "end" }, tick.text);
    }
    for (const tick of this.x.ticks(Math.max(3, (width - LEFT) / 85))) {
      const at = this.x.at(tick.value);
      Svg.add(this.svg, "line", { class: "rule", x1: at, x2: at, y1: top, y2: top + height });
      if (last) Svg.add(this.svg, "text", { class: "tick", x: at, y: top + height + 17, "text-anchor": "middle" }, tick.text);
    }
    const title = pane.y.unit ? `${pane.y.label}, ${pane.y.unit}` : pane.y.label;
    Svg.add(this.svg, "text", { class: "axis", transform: `translate(13 ${top + height / 2}) rotate(-90)`, "text-anchor": "middle" }, title);
    if (last) Svg.add(this.svg, "text", { class: "axis", x: (LEFT + width - RIGHT) / 2, y: top + height + 35, "text-anchor": "middle" }, this.spec.x.unit ? `${this.spec.x.label}, ${this.spec.x.unit}` : this.spec.x.label);
    const inside = Svg.add(this.svg, "g", { "clip-path": `url(#${clip})` });
    for (const [from, to] of this.spec.shaded) {
      const left = this.x.at(from);
      Svg.add(inside, "rect", { class: "shaded", x: left, y: top, width: Math.max(1, this.x.at(to) - left), height });
    }
    for (const series of pane.series) this.drawSeries(inside, series, y);
  }

  yScale(pane, top, height) {
    let low = Infinity, high = -Infinity;
    for (const series of pane.series) {
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
    if (pane.y.log) return new Scale(low / 1.6, high * 1.6, top + height, top, true);
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    const cells = pane.series[0].kind === "cells" ? 0 : room;
    return new Scale(low === 0 && pane.zero ? 0 : low - cells, high === 0 && pane.zero ? 0 : high + cells, top + height, top, false);
  }

  /* First and last point of a series that the range of x needs. */
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
    const make = { line: () => this.linePath(series, series.y, y), band: () => this.bandPath(series, y), bars: () => this.barPath(series, y) }[series.kind];
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
  /* Where many points share a column of pixels, the least and the greatest of them. */
  points(series, values, y) {
    const x = Packing.array(series.x);
    const [from, to] = this.visible(series);
    const found = [];
    const put = (at, value) => found.push(`${at.toFixed(1)} ${y.at(y.log ? Math.max(value, y.low / 10) : value).toFixed(1)}`);
    if (to - from < 2.5 * (this.x.to - this.x.from)) {
      for (let k = from; k <= to; k++) put(this.x.at(x[k]), values[k]);
      return found;
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
    return found;
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
      this.read(now);
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
    this.svg.addEventListener("pointerleave", () => this.read(null));
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

  /* The values under the pointer, in the legend. */
  read(at) {
    const inside = at !== null && at >= this.x.from && at <= this.x.to;
    this.line.setAttribute("visibility", inside ? "visible" : "hidden");
    this.line.setAttribute("x1", at ?? 0);
    this.line.setAttribute("x2", at ?? 0);
    for (const pane of this.spec.panes) {
      for (const series of pane.series) {
        const x = Packing.array(series.x);
        const k = inside ? Math.min(x.length - 1, Plot.search(x, this.x.back(at))) : 0;
        this.values.get(series).textContent = inside ? `${shortNumber(Packing.array(series.y)[k])} ${pane.y.unit}` : "";
      }
    }
  }

  static all = [];
  static start() {
    Plot.all = [...document.querySelectorAll("figure[data-plot]")].map((figure) => new Plot(figure, Numbers[figure.dataset.plot]));
    const byArea = new Map(Plot.all.map((plot) => [plot.area, plot]));
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const plot = byArea.get(entry.target);
        if (entry.isIntersecting && (!plot.seen || plot.stale)) plot.draw();
      }
    }, { rootMargin: "300px" });
    const sized = new ResizeObserver((entries) => entries.forEach((entry) => {
      const plot = byArea.get(entry.target), width = Math.round(entry.contentRect.width);
      if (plot.seen && width && width !== plot.width) { plot.width = width; plot.draw(); }
    }));
    for (const area of byArea.keys()) { seen.observe(area); sized.observe(area); }
    addEventListener("beforeprint", () => Plot.all.forEach((plot) => plot.draw(PRINT_WIDTH / 2)));
    addEventListener("afterprint", () => Plot.all.forEach((plot) => plot.refresh()));
  }
}
