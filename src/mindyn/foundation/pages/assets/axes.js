"use strict";
/* Numbers, scales and ticks shared by all drawings. */
const Numbers = JSON.parse(document.getElementById("plots").textContent);

const Packing = {
  /* Return an array from a list, from packed bytes, or by the name of a shared array, which is unpacked once. */
  cache: new Map(),
  array(values) {
    if (Array.isArray(values)) return values;
    if (!Packing.cache.has(values)) Packing.cache.set(values, Packing.unpacked(values));
    return Packing.cache.get(values);
  },
  unpacked(values) {
    if (typeof values === "string") return Packing.array(Numbers.shared[values]);
    const bytes = Uint8Array.from(atob(values.data), (letter) => letter.charCodeAt(0));
    if (values.kind === "f64") return new Float64Array(bytes.buffer);
    if (values.kind === "index16") return new Uint16Array(bytes.buffer);
    if (values.kind === "index32") return new Uint32Array(bytes.buffer);
    const step = (values.high - values.low) / 65535;
    return Float64Array.from(new Uint16Array(bytes.buffer), (level) => values.low + level * step);
  },
};

const Svg = {
  /* The empty drawing of the page provides the SVG namespace. */
  space: document.getElementById("space").namespaceURI,
  /* Add an element with attributes to `parent`. */
  add(parent, name, attributes = {}, text = null) {
    const element = document.createElementNS(Svg.space, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    parent.appendChild(element);
    return element;
  },
};

const Page = {
  /* Create an HTML element with a class and text. */
  make(name, kind = "", text = "") {
    const element = document.createElement(name);
    if (kind) element.className = kind;
    if (text) element.textContent = text;
    return element;
  },
  button(text, label, act) {
    const element = Page.make("button", "", text);
    element.type = "button";
    element.setAttribute("aria-label", label);
    element.title = label;
    element.addEventListener("click", act);
    return element;
  },
};

class Scale {
  /* Map values between low and high to pixels between from and to. */
  constructor(low, high, from, to, log) {
    Object.assign(this, { low, high, from, to, log });
    this.origin = log ? Math.log10(low) : low;
    this.factor = (to - from) / ((log ? Math.log10(high) : high) - this.origin);
  }
  at(value) {
    return this.from + ((this.log ? Math.log10(value) : value) - this.origin) * this.factor;
  }
  back(pixel) {
    const value = this.origin + (pixel - this.from) / this.factor;
    return this.log ? 10 ** value : value;
  }
  ticks(most) {
    return this.log ? this.decades(most) : this.even(most);
  }
  even(most) {
    const rough = (this.high - this.low) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const off = (k) => Math.abs(Math.log(k / rough));
    const step = [1, 2, 5, 10].map((k) => k * power).reduce((best, k) => (off(k) < off(best) ? k : best));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const ticks = [];
    for (let k = Math.ceil(this.low / step - 1e-9); k * step <= this.high + step * 1e-9; k++) {
      ticks.push({ value: k * step, text: Scale.text(k * step, digits, step) });
    }
    return ticks;
  }
  decades(most) {
    const first = Math.ceil(Math.log10(this.low) - 1e-9);
    const last = Math.floor(Math.log10(this.high) + 1e-9);
    const stride = Math.max(1, Math.ceil((last - first + 1) / most));
    const ticks = [];
    for (let k = first; k <= last; k += stride) ticks.push({ value: 10 ** k, text: Scale.power(k) });
    return ticks;
  }
  /* Return ticks without overlapping texts: keep zero first, then the outermost; a text at the right edge ends there. */
  apart(ticks) {
    const taken = [];
    const order = [...ticks].sort((a, b) => (b.text === "0") - (a.text === "0") || Math.abs(b.value) - Math.abs(a.value));
    for (const tick of order) {
      const at = this.at(tick.value), half = 4 * tick.text.length + 2;
      tick.anchor = at + half > this.to + 12 ? "end" : "middle";
      const left = tick.anchor === "end" ? at - 2 * half : at - half;
      if (taken.some(([low, high]) => left + 2 * half > low && left < high)) tick.text = "";
      else taken.push([left, left + 2 * half]);
    }
    return ticks;
  }
  /* Format a value with enough digits to distinguish ticks with a distance of `step`. */
  static text(value, digits, step) {
    if (Math.abs(value) < step / 2) return digits > 6 ? "0" : (0).toFixed(digits);
    if (Math.abs(value) >= 1e5 || digits > 6) {
      const more = Math.floor(Math.log10(Math.abs(value)) + 1e-9) - Math.floor(Math.log10(step) + 1e-9);
      const [mantissa, power] = value.toExponential(Math.max(0, more)).replace("-", value < 0 ? "\u2212" : "-").split("e");
      return `${mantissa}·${Scale.raised(Number(power))}`;
    }
    return value.toFixed(digits).replace(/^-(0(\.0+)?)$/, "$1").replace("-", "\u2212");
  }
  static power(k) {
    return k >= -2 && k <= 3 ? String(Number((10 ** k).toPrecision(1))) : Scale.raised(k);
  }
  static raised(k) {
    return "10" + [...String(k)].map((letter) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(letter)]).join("");
  }
}

/* Format a number for the cursor. */
function shortNumber(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2).replace("-", "\u2212");
  return value.toFixed(size >= 100 ? 1 : size >= 1 ? 2 : 4).replace("-", "\u2212");
}
