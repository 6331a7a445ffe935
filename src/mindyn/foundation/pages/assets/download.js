"use strict";
/* Export a plot as numbers (CSV), vector graphics (SVG) or a picture (PNG), on demand. */
const Download = {
  PAINT: ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "fill-opacity", "font-size", "font-family", "font-weight", "visibility"],

  menu(plot) {
    const details = Page.make("details", "download"), list = Page.make("div", "formats");
    const summary = Page.make("summary", "", "Save");
    summary.setAttribute("aria-label", `Save ${plot.area.dataset.label}`);
    for (const [name, make] of [["CSV", Download.csv], ["SVG", Download.svg], ["PNG", Download.png]]) {
      list.append(Page.button(name, `${name} of ${plot.area.dataset.label}`, () => { if (!plot.x) plot.draw(); make(plot); details.open = false; }));
    }
    details.append(summary, list);
    details.addEventListener("keydown", (event) => { if (event.key === "Escape") { details.open = false; summary.focus(); } });
    return details;
  },

  file(plot, ending, blob) {
    const link = Page.make("a"), name = `${document.title} ${plot.figure.dataset.plot}`.replace(/[^A-Za-z0-9]+/g, "-");
    link.href = URL.createObjectURL(blob);
    link.download = `${name}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  },

  /* Return one line per point: series, x, y, and the second edge of a band or the ends of an interval. */
  csv(plot) {
    const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
    const axis = (described) => (described.unit ? `${described.label} [${described.unit}]` : described.label);
    const lines = [["quantity", "series", axis(plot.spec.x), "value", "low", "high"].map(quoted).join(",")];
    for (const pane of plot.spec.panes) {
      for (const series of pane.series) {
        if (series.kind === "cells") {
          const [left, right] = series.x, [low, high] = series.y, wide = (right - left) / series.rows[0].length, tall = (high - low) / series.rows.length;
          series.rows.forEach((row, i) => [...row].forEach((level, j) => {
            if (level !== "0") lines.push([quoted(axis(pane.y)), quoted(series.name), left + (j + 0.5) * wide, low + (i + 0.5) * tall, "", ""].join(","));
          }));
          continue;
        }
        const x = Packing.array(series.x), y = Packing.array(series.y), upper = series.y2 && Packing.array(series.y2);
        const head = [quoted(axis(pane.y)), quoted(series.name)];
        for (let k = 0; k < y.length; k++) {
          if (series.kind === "intervals") lines.push([...head, quoted(series.names[k]), ...series.raw[k].map((value) => value ?? "")].join(","));
          else lines.push([...head, x[k], y[k], upper ? y[k] : "", upper ? upper[k] : ""].join(","));
        }
      }
    }
    Download.file(plot, "csv", new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  },

  /* Return the drawing with inline colours, because the style of the page is not part of the file. */
  drawing(plot) {
    plot.leave();
    const copy = plot.svg.cloneNode(true), all = [...plot.svg.querySelectorAll("*")];
    [...copy.querySelectorAll("*")].forEach((element, k) => {
      const style = getComputedStyle(all[k]);
      for (const name of Download.PAINT) if (style.getPropertyValue(name)) element.setAttribute(name, style.getPropertyValue(name));
      element.removeAttribute("class");
    });
    const { width, height } = plot.svg.viewBox.baseVal;
    for (const [key, value] of [["xmlns", Svg.space], ["width", width], ["height", height]]) copy.setAttribute(key, value);
    copy.removeAttribute("style");
    const ground = document.createElementNS(Svg.space, "rect");
    for (const [key, value] of [["width", width], ["height", height], ["fill", getComputedStyle(plot.area).backgroundColor]]) ground.setAttribute(key, value);
    copy.prepend(ground);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  },
  svg(plot) {
    Download.file(plot, "svg", new Blob([Download.drawing(plot).text], { type: "image/svg+xml" }));
  },
  png(plot) {
    const { text, width, height } = Download.drawing(plot), picture = new Image(), canvas = Page.make("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    picture.onload = () => {
      canvas.getContext("2d").drawImage(picture, 0, 0, 2 * width, 2 * height);
      canvas.toBlob((blob) => Download.file(plot, "png", blob), "image/png");
    };
    picture.src = `data:image/svg+xml;base64,${btoa(unescape(encodeURIComponent(text)))}`;
  },
};
