"use strict";
/* Tabs, theme, table, navigation. */
const Tabs = {
  start() {
    for (const list of document.querySelectorAll("[role=tablist]")) {
      const heads = [...list.querySelectorAll("[role=tab]")];
      heads.forEach((head, k) => {
        head.addEventListener("click", () => Tabs.choose(heads, k));
        head.addEventListener("keydown", (event) => {
          const next = { ArrowRight: k + 1, ArrowLeft: k - 1, Home: 0, End: heads.length - 1 }[event.key];
          if (next === undefined) return;
          event.preventDefault();
          const to = (next + heads.length) % heads.length;
          Tabs.choose(heads, to);
          heads[to].focus();
        });
      });
    }
  },
  choose(heads, chosen) {
    heads.forEach((head, k) => {
      head.setAttribute("aria-selected", String(k === chosen));
      head.tabIndex = k === chosen ? 0 : -1;
      document.getElementById(head.getAttribute("aria-controls")).hidden = k !== chosen;
    });
    heads[chosen].scrollIntoView({ block: "nearest", inline: "nearest" });
  },
};

const Theme = {
  start() {
    const button = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
    const dark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
    const show = () => button.setAttribute("aria-pressed", String(dark()));
    button.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; show(); });
    system.addEventListener("change", show);
    show();
  },
};

const Logs = {
  start() {
    const choice = document.getElementById("log");
    choice?.addEventListener("change", () => {
      for (const figure of document.querySelectorAll("figure[data-log]")) figure.hidden = figure.dataset.log !== choice.value;
    });
  },
};

const Table = {
  start() {
    Table.element = document.querySelector("#parameter-table table");
    if (!Table.element) return;
    Table.bodies = [...Table.element.tBodies]; /* one per parameter: its row and its formula */
    const states = [...Table.element.tHead.rows[0].cells].findIndex((cell) => cell.textContent === "State");
    const find = document.getElementById("find"), state = document.getElementById("state");
    const filter = () => {
      const wanted = find.value.trim().toLowerCase();
      for (const body of Table.bodies) {
        const named = body.rows[0].cells[0].textContent + " " + (body.rows[1]?.textContent ?? "");
        body.hidden = !(named.toLowerCase().includes(wanted) && (!state.value || body.rows[0].cells[states].textContent === state.value));
      }
      const shown = Table.bodies.filter((body) => !body.hidden).length;
      document.getElementById("found").textContent = shown === Table.bodies.length ? "" : `${shown} of ${Table.bodies.length} shown`;
    };
    find.addEventListener("input", filter);
    state.addEventListener("change", filter);
    for (const button of Table.element.querySelectorAll("button.sort")) button.addEventListener("click", () => Table.sort(button.parentElement));
  },
  sort(head) {
    const column = head.cellIndex, up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const numeric = head.classList.contains("number");
    const key = (body) => {
      const cell = body.rows[0].cells[column];
      return numeric ? Number(cell.querySelector("[data-sort]")?.dataset.sort ?? NaN) : cell.textContent;
    };
    const ordered = Table.bodies.map((body) => [key(body), body]).sort(([a], [b]) => {
      if (!numeric) return (up ? 1 : -1) * a.localeCompare(b, undefined, { numeric: true });
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
      return up ? a - b : b - a;
    });
    Table.element.append(...ordered.map(([, body]) => body));
  },
};

/* Mark tables that are wider than their frame; the head of a long table stays below the header of the page. */
const Frames = {
  start() {
    const head = document.querySelector("body > header");
    const look = () => {
      document.documentElement.style.setProperty("--head", `${head.offsetHeight}px`);
      for (const frame of document.querySelectorAll(".scroll")) frame.classList.toggle("wider", frame.scrollWidth > frame.clientWidth + 1);
    };
    new ResizeObserver(look).observe(document.body);
    document.addEventListener("toggle", look, true); /* tables inside <details> */
  },
};

const Navigation = {
  start() {
    const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(entry.target.id).setAttribute("aria-current", "true");
      }
    }, { rootMargin: "-15% 0px -80% 0px" });
    document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
  },
};

Plot.start();
for (const part of [Tabs, Theme, Logs, Table, Frames, Navigation]) part.start();
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.raw)").forEach((details) => { details.dataset.was = details.open; details.open = true; }));
addEventListener("afterprint", () => document.querySelectorAll("details:not(.raw)").forEach((details) => { details.open = details.dataset.was === "true"; }));
