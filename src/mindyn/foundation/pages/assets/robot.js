"use strict";
/* The robot's skeleton in parallel projection: turn by drag, keys or buttons, zoom by wheel or buttons, play its log
   with the path of its tip; joints are coloured by their torque relative to the largest. */
const SPEEDS = [0.25, 0.5, 1, 2, 4];
class RobotView {
  constructor(figure, skeleton) {
    Object.assign(this, { skeleton, area: figure.querySelector(".area"), pose: 0, turn: 0.7, tilt: 0.35, near: 1, speed: 1, trace: true, volumes: true });
    this.svg = Svg.add(this.area, "svg", { role: "img", "aria-label": this.area.dataset.label });
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "group");
    this.area.setAttribute("aria-label", `${this.area.dataset.label}; arrow keys turn it, plus and minus zoom`);
    this.layer = skeleton.meshes?.length ? MeshLayer.on(this.area, skeleton) : null;
    this.solid = this.layer !== null;
    this.back = this.layer ? Svg.add(this.area, "svg", { class: "back", "aria-hidden": "true" }) : this.svg; /* behind the meshes */
    if (this.layer) this.area.prepend(this.back);
    figure.insertBefore(this.controls(), this.area);
    this.listen();
    this.fit();
    this.draw();
  }

  controls() {
    const bar = Page.make("div", "bar");
    const tools = Page.make("div", "tools");
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", "Turn");
    for (const [text, label, turn, tilt] of [["←", "Turn left", -1, 0], ["→", "Turn right", 1, 0], ["↑", "Tilt up", 0, 1], ["↓", "Tilt down", 0, -1]]) {
      tools.append(Page.button(text, label, () => this.rotate(turn * 0.25, tilt * 0.15)));
    }
    tools.append(Page.button("+", "Nearer", () => this.zoom(1.25)), Page.button("−", "Farther", () => this.zoom(0.8)));
    bar.append(tools);
    const meshes = this.layer ? [this.choice("Meshes", (on) => { this.solid = on; this.draw(); })] : [];
    const poses = this.skeleton.frames.length;
    if (poses > 1) {
      const label = Page.make("label", "choice", "Time");
      const slider = Object.assign(Page.make("input"), { type: "range", min: 0, max: poses - 1, value: 0 });
      const output = Page.make("output", "", "0 s");
      this.show = (pose) => {
        this.pose = pose;
        slider.value = pose;
        output.textContent = `${this.skeleton.times[this.pose].toFixed(1)} s`;
        slider.setAttribute("aria-valuetext", output.textContent);
        this.draw();
      };
      slider.addEventListener("input", () => this.show(Number(slider.value)));
      label.append(slider, output);
      const player = this.player();
      player.append(...meshes);
      bar.append(player, label);
    } else bar.append(...meshes);
    return bar;
  }

  /* Create the controls for playing, speed, and the path of the tip. */
  player() {
    const player = Page.make("div", "player"), play = Page.button("▶", "Play", () => this.play(!this.playing, play));
    const label = Page.make("label", "choice", "Speed"), speed = Page.make("select");
    for (const value of SPEEDS) speed.append(Object.assign(Page.make("option", "", `${value}×`), { value, selected: value === 1 }));
    speed.addEventListener("change", () => { this.speed = Number(speed.value); });
    label.append(speed);
    player.append(play, label, this.choice("Path of the tip", (on) => { this.trace = on; this.draw(); }));
    if (this.skeleton.volumes) player.append(this.choice("Volumes", (on) => { this.volumes = on; this.draw(); }));
    return player;
  }
  /* Create a checkbox that is initially checked. */
  choice(text, act) {
    const label = Page.make("label", "choice"), box = Object.assign(Page.make("input"), { type: "checkbox", checked: true });
    box.addEventListener("change", () => act(box.checked));
    label.append(box, document.createTextNode(text));
    return label;
  }
  play(on, button) {
    this.playing = on;
    button.textContent = on ? "❚❚" : "▶";
    button.setAttribute("aria-label", on ? "Pause" : "Play");
    const times = this.skeleton.times, last = times.length - 1;
    let before = null, time = this.pose === last ? times[0] : times[this.pose];
    const step = (now) => {
      if (!this.playing) return;
      if (before !== null) time += ((now - before) / 1000) * this.speed;
      before = now;
      if (time >= times[last]) { this.show(last); return this.play(false, button); }
      let pose = 0;
      while (pose < last && times[pose + 1] <= time) pose++;
      if (pose !== this.pose) this.show(pose);
      requestAnimationFrame(step);
    };
    if (on) requestAnimationFrame(step);
  }
  zoom(factor) {
    this.near = Math.max(0.5, Math.min(6, this.near * factor));
    this.draw();
  }

  rotate(turn, tilt) {
    this.turn += turn;
    this.tilt = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, this.tilt + tilt));
    this.draw();
  }

  listen() {
    let last = null;
    this.svg.addEventListener("pointerdown", (event) => { last = [event.clientX, event.clientY]; this.svg.setPointerCapture(event.pointerId); });
    this.svg.addEventListener("pointermove", (event) => {
      if (!last) return;
      this.rotate((last[0] - event.clientX) / 120, (event.clientY - last[1]) / 160);
      last = [event.clientX, event.clientY];
    });
    for (const name of ["pointerup", "pointercancel"]) this.svg.addEventListener(name, () => { last = null; });
    this.area.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 0.9 : 1.1);
    }, { passive: false });
    this.area.addEventListener("keydown", (event) => {
      const factor = { "+": 1.25, "=": 1.25, "-": 0.8 }[event.key];
      if (factor && !event.ctrlKey && !event.metaKey) { event.preventDefault(); return this.zoom(factor); }
      const step = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
      if (!step) return;
      event.preventDefault();
      this.rotate(...step);
    });
  }

  /* Compute centre and size of all poses, so that the view does not move with the robot. */
  fit() {
    const low = [0, 0, 0], high = [0, 0, 0];
    for (const frame of this.skeleton.frames) {
      for (let k = 0; k < 3 * this.skeleton.points; k++) {
        low[k % 3] = Math.min(low[k % 3], frame[k]);
        high[k % 3] = Math.max(high[k % 3], frame[k]);
      }
    }
    for (const point of this.layer?.extent() ?? []) {
      for (let k = 0; k < 3; k++) {
        low[k] = Math.min(low[k], point[k]);
        high[k] = Math.max(high[k], point[k]);
      }
    }
    this.centre = low.map((value, k) => (value + high[k]) / 2);
    this.size = Math.hypot(...high.map((value, k) => value - low[k])) || 1;
    this.floor = this.skeleton.ground ?? low[2];
  }

  /* Return screen position and depth of a point in the root frame. */
  seen([x, y, z]) {
    const [a, b, c] = [x - this.centre[0], y - this.centre[1], z - this.centre[2]];
    const [right, away] = [a * Math.cos(this.turn) + b * Math.sin(this.turn), -a * Math.sin(this.turn) + b * Math.cos(this.turn)];
    return [this.wide / 2 + right * this.scale, 0.375 * this.wide - (c * Math.cos(this.tilt) + away * Math.sin(this.tilt)) * this.scale, away * Math.cos(this.tilt) - c * Math.sin(this.tilt)];
  }
  point(k) {
    return this.skeleton.frames[this.pose].slice(3 * k, 3 * k + 3);
  }

  draw() {
    this.wide = Math.max(320, Math.min(640, this.area.clientWidth || 640));
    this.scale = (this.near * 0.67 * this.wide) / this.size;
    this.area.classList.toggle("solid-links", this.solid);
    if (this.layer) this.layer.canvas.hidden = !this.solid;
    if (this.solid) this.layer.draw(this);
    for (const svg of new Set([this.back, this.svg])) {
      svg.setAttribute("viewBox", `0 0 ${this.wide} ${0.75 * this.wide}`);
      svg.replaceChildren();
    }
    this.drawFloor();
    this.drawTriad();
    for (const line of this.skeleton.solids ?? []) Svg.add(this.svg, "polyline", { class: "solid", points: line.map((at) => this.seen(at).slice(0, 2).map((v) => v.toFixed(1)).join(",")).join(" ") });
    this.drawVolumes();
    const drawings = [];
    this.skeleton.paths.forEach((path, owner) => {
      const [start, through, ...ends] = owner === 0 ? [path[0], path[0], ...path.slice(1)] : path;
      for (const end of ends.length ? ends : [through]) drawings.push({ kind: owner === 0 ? "base" : "link", points: [start, through, end].map((k) => this.seen(this.point(k))) });
    });
    drawings.sort((drawing, other) => RobotView.depth(other) - RobotView.depth(drawing));
    for (const drawing of drawings) Svg.add(this.svg, "polyline", { class: drawing.kind, points: drawing.points.map((at) => at.slice(0, 2).map((v) => v.toFixed(1)).join(",")).join(" ") });
    this.drawTrace();
    this.skeleton.axes.forEach((k, joint) => this.drawJoint(k, joint));
    this.drawGravity();
  }
  static depth(drawing) {
    return drawing.points.reduce((sum, at) => sum + at[2], 0) / drawing.points.length;
  }

  /* Draw capsules around the links as thick lines with round ends, and highlight the closest pair. */
  drawVolumes() {
    const all = this.skeleton.volumes;
    if (!all || !this.volumes) return;
    const [label, ...near] = all.closest[this.pose] ?? [""], ends = all.ends[this.pose];
    const groups = [false, true].map((marked) => Svg.add(this.svg, "g", { class: marked ? "volumes near" : "volumes" }));
    all.radii.forEach((radius, k) => {
      const [from, to] = [0, 3].map((i) => this.seen(ends.slice(6 * k + i, 6 * k + i + 3)));
      Svg.add(groups[Number(near.includes(all.bodies[k]))], "line", { x1: from[0], y1: from[1], x2: to[0] + 0.01, y2: to[1], "stroke-width": 2 * radius * this.scale });
    });
    if (label) Svg.add(this.svg, "text", { class: "tick", x: 12, y: 22 }, `closest: ${label}`);
  }
  drawFloor() {
    const reach = Math.ceil(this.size * 0.5 * 5) / 5, step = reach / 4;
    for (let k = -4; k <= 4; k++) {
      for (const ends of [[[k * step, -reach], [k * step, reach]], [[-reach, k * step], [reach, k * step]]]) {
        const [from, to] = ends.map(([x, y]) => this.seen([x, y, this.floor]));
        Svg.add(this.back, "line", { class: "floor", x1: from[0], y1: from[1], x2: to[0], y2: to[1] });
      }
    }
  }
  drawTriad() {
    for (const [name, axis] of [["x", [1, 0, 0]], ["y", [0, 1, 0]], ["z", [0, 0, 1]]]) {
      const origin = this.seen([0, 0, 0]), tip = this.seen(axis.map((value) => value * this.size * 0.14));
      Svg.add(this.back, "line", { class: "triad", x1: origin[0], y1: origin[1], x2: tip[0], y2: tip[1] });
      Svg.add(this.back, "text", { class: "tick", x: tip[0] + 4, y: tip[1] + 4 }, name);
    }
  }
  /* Draw the path of the last point up to the current time. */
  drawTrace() {
    if (!this.trace || this.skeleton.frames.length < 2) return;
    const last = this.skeleton.tip, path = this.skeleton.frames.map((frame) => this.seen(frame.slice(3 * last, 3 * last + 3)).slice(0, 2).map((v) => v.toFixed(1)).join(","));
    Svg.add(this.svg, "polyline", { class: "way all", points: path.join(" ") });
    Svg.add(this.svg, "polyline", { class: "way", points: path.slice(0, this.pose + 1).join(" ") });
  }
  drawJoint(k, joint) {
    const at = this.point(k);
    const axis = this.skeleton.frames[this.pose].slice(3 * (this.skeleton.points + joint), 3 * (this.skeleton.points + joint) + 3);
    const ends = [-1, 1].map((side) => this.seen(at.map((value, i) => value + side * axis[i] * this.size * 0.05)));
    Svg.add(this.svg, "line", { class: "joint-axis", x1: ends[0][0], y1: ends[0][1], x2: ends[1][0], y2: ends[1][1] });
    const [x, y] = this.seen(at);
    const mark = this.skeleton.kinds[joint] === "prismatic" ? ["rect", { x: x - 6, y: y - 6, width: 12, height: 12 }] : ["circle", { cx: x, cy: y, r: 6.5 }];
    const share = this.skeleton.torques.length ? this.skeleton.torques[this.pose][joint] : 0;
    const drawn = Svg.add(this.svg, mark[0], { class: "joint", ...mark[1] });
    if (share > 0) drawn.style.fill = `color-mix(in oklab, var(--residual) ${Math.round(100 * share)}%, var(--card))`;
    const here = this.skeleton.axes.map((other, i) => [i + 1, this.point(other)]).filter(([, point]) => point.every((value, i) => Math.abs(value - at[i]) < 0.01 * this.size));
    if (here[0][0] === joint + 1) Svg.add(this.svg, "text", { class: "joint-number", x: x + 12, y: y - 9 }, here.map(([number]) => number).join(" "));
  }
  drawGravity() {
    const size = Math.hypot(...this.skeleton.gravity);
    if (!size) return;
    const origin = this.seen(this.centre), tip = this.seen(this.centre.map((value, k) => value + (this.skeleton.gravity[k] / size) * this.size * 0.12));
    const [dx, dy] = [tip[0] - origin[0], tip[1] - origin[1]], long = Math.hypot(dx, dy) || 1;
    const [x, y] = [this.wide - 50, 60], [u, v] = [dx / long, dy / long];
    Svg.add(this.svg, "line", { class: "gravity", x1: x, y1: y, x2: x + dx, y2: y + dy });
    Svg.add(this.svg, "path", { class: "gravity", d: `M${x + dx} ${y + dy}l${-7 * u - 4 * v} ${-7 * v + 4 * u}M${x + dx} ${y + dy}l${-7 * u + 4 * v} ${-7 * v - 4 * u}` });
    Svg.add(this.svg, "text", { class: "tick", x: x - 16, y: y + 4 }, "g");
  }
}
