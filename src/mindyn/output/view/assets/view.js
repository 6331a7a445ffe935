"use strict";
/* A robot in space: turn by drag or arrow keys, zoom by plus and minus, pose by sliders or play a motion; what plots show
   and what the robot does share one time. Without WebGL, the picture that the page contains stays. */
const SceneColours = {
  names: { link: "--view-link", base: "--view-base", floor: "--line", volume: "--accent", near: "--poor", bad: "--poor", frame: "--soft", inertia: "--good", limit: "--fair", back: "--card" },
  read(area) {
    const probe = document.createElement("span"), colours = {};
    area.append(probe);
    for (const [name, variable] of Object.entries(SceneColours.names)) {
      probe.style.color = `var(${variable})`;
      colours[name] = new THREE.Color(getComputedStyle(probe).color);
    }
    probe.remove();
    return colours;
  },
};

/* Poses of the links from the positions of all joints. */
class Chain {
  constructor(scene, groups) {
    this.joints = scene.joints.map((joint) => ({
      ...joint,
      originMatrix: new THREE.Matrix4().set(...joint.origin),
      tipMatrix: new THREE.Matrix4().set(...joint.tip),
      axisVector: new THREE.Vector3(...joint.axis),
    }));
    this.groups = groups;
    this.moved = new THREE.Matrix4();
  }
  set(positions) {
    this.joints.forEach((joint, k) => {
      const matrix = this.groups[k + 1].matrix;
      if (joint.kind === "revolute") this.moved.makeRotationAxis(joint.axisVector, positions[k]);
      else this.moved.makeTranslation(joint.axis[0] * positions[k], joint.axis[1] * positions[k], joint.axis[2] * positions[k]);
      matrix.multiplyMatrices(this.groups[joint.parent].matrix, joint.originMatrix).multiply(this.moved).multiply(joint.tipMatrix);
    });
    this.groups.forEach((group) => group.updateMatrixWorld(true));
  }
}

class SpaceView {
  constructor(figure, scene) {
    Object.assign(this, { figure, scene, area: figure.querySelector(".area"), time: 0, speed: 1, shown: {}, stale: true, tinted: scene.playback?.residual ? "residual" : "torque" });
    this.renderer = SpaceView.rendererFor();
    if (!this.renderer) return;
    this.area.classList.add("live");
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "group");
    this.area.setAttribute("aria-label", `${this.area.dataset.label}; arrow keys turn it, plus and minus zoom, 0 shows all, space plays`);
    const canvas = this.renderer.domElement;
    canvas.setAttribute("aria-hidden", "true");
    this.area.prepend(canvas);
    this.space = new THREE.Scene();
    this.camera = new THREE.PerspectiveCamera(35, 4 / 3, 0.01, 1000);
    this.camera.up.set(0, 0, 1);
    this.build();
    this.controls = new THREE.OrbitControls(this.camera, canvas);
    this.controls.addEventListener("change", () => this.redraw());
    canvas.style.touchAction = "pan-y";
    this.buildBar();
    this.positions = [...scene.rest];
    this.pose(this.positions);
    this.fit();
    this.listen();
    this.paint();
    this.label = Page.make("output", "closest");
    this.label.hidden = true;
    this.area.append(this.label);
    if (scene.playback) this.show(0);
    else if (scene.dependence) this.sliders(document.getElementById("sliders"));
    const loop = () => { if (this.stale) this.render(); requestAnimationFrame(loop); };
    requestAnimationFrame(loop);
  }
  static rendererFor() {
    if (!document.createElement("canvas").getContext("webgl2")) return null;
    try { return new THREE.WebGLRenderer({ antialias: true, alpha: true, preserveDrawingBuffer: true }); } catch { return null; }
  }

  /* --- what stands in space --------------------------------------------------------------------------------- */
  build() {
    const { scene } = this;
    this.groups = scene.links.map(() => Object.assign(new THREE.Group(), { matrixAutoUpdate: false }));
    for (const group of this.groups) this.space.add(group);
    this.chain = new Chain(scene, this.groups);
    this.materials = scene.links.map((link, k) => new THREE.MeshLambertMaterial({ side: THREE.DoubleSide, flatShading: scene.meshes.some((mesh) => mesh.link === k), userData: { role: k === 0 ? "base" : "link" } }));
    this.layers = { volumes: [], frames: [], inertia: [], limits: [], links: [], path: [] };
    for (const mesh of scene.meshes) {
      const geometry = new THREE.BufferGeometry();
      geometry.setAttribute("position", new THREE.BufferAttribute(Float32Array.from(Packing.array(mesh.corners)), 3));
      geometry.setIndex(new THREE.BufferAttribute(Uint32Array.from(Packing.array(mesh.faces)), 1));
      geometry.computeVertexNormals();
      this.put("links", mesh.link, new THREE.Mesh(geometry, this.materials[mesh.link]));
    }
    const glass = this.glass = new THREE.MeshLambertMaterial({ transparent: true, opacity: 0.22, depthWrite: false });
    this.glassNear = new THREE.MeshLambertMaterial({ transparent: true, opacity: 0.5, depthWrite: false });
    this.volumes = [];
    for (const capsule of scene.capsules) {
      const solid = SpaceView.capsule(capsule, this.materials[capsule.link]);
      if (scene.solid.includes(capsule.link)) this.put("links", capsule.link, solid);
      const clear = SpaceView.capsule(capsule, glass);
      clear.userData.link = capsule.link;
      this.volumes.push(clear);
      this.put("volumes", capsule.link, clear);
    }
    this.lineMaterial = new THREE.LineBasicMaterial();
    const size = this.size = SpaceView.reach(scene);
    for (const line of scene.lines) for (const [a, b] of line.ends) this.put("links", line.link, SpaceView.capsule({ a, b, radius: 0.012 * size }, this.materials[line.link]));
    scene.joints.forEach((joint, k) => this.buildJoint(joint, k, size));
    scene.links.forEach((link, k) => this.buildInertia(link, k, size));
    this.buildSurroundings(size);
    if (scene.playback) this.buildPath();
    const above = new THREE.HemisphereLight(0xffffff, 0x777777, 2.1), sun = new THREE.DirectionalLight(0xffffff, 1.5);
    sun.position.set(1.5, -2.2, 3);
    this.space.add(above, sun);
  }
  put(layer, link, object) {
    this.layers[layer].push(object);
    this.groups[link].add(object);
  }
  static reach(scene) {
    const lengths = scene.joints.map((joint) => Math.hypot(joint.origin[3], joint.origin[7], joint.origin[11]) + Math.hypot(joint.tip[3], joint.tip[7], joint.tip[11]));
    return Math.max(0.05, Math.min(4, lengths.reduce((a, b) => a + b, 0) / 2));
  }
  static capsule({ a, b, radius }, material) {
    const from = new THREE.Vector3(...a), to = new THREE.Vector3(...b), way = to.clone().sub(from), length = way.length();
    const mesh = new THREE.Mesh(new THREE.CapsuleGeometry(radius, length, 6, 18), material);
    mesh.position.copy(from).add(to).multiplyScalar(0.5);
    if (length > 1e-9) mesh.quaternion.setFromUnitVectors(new THREE.Vector3(0, 1, 0), way.divideScalar(length));
    return mesh;
  }
  static lines(points, material) {
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.BufferAttribute(new Float32Array(points.flat()), 3));
    return new THREE.LineSegments(geometry, material);
  }
  static triad(size) {
    const geometry = SpaceView.lines([[0, 0, 0], [size, 0, 0], [0, 0, 0], [0, size, 0], [0, 0, 0], [0, 0, size]], new THREE.LineBasicMaterial({ vertexColors: true, depthTest: false }));
    const colours = [0.85, 0.2, 0.2, 0.85, 0.2, 0.2, 0.15, 0.6, 0.2, 0.15, 0.6, 0.2, 0.2, 0.35, 0.9, 0.2, 0.35, 0.9];
    geometry.geometry.setAttribute("color", new THREE.BufferAttribute(new Float32Array(colours), 3));
    geometry.renderOrder = 2;
    return geometry;
  }
  /* Add the frame of a joint, its axis, and the arc of its limits around it. */
  buildJoint(joint, k, size) {
    const fixed = Object.assign(new THREE.Group(), { matrixAutoUpdate: false });
    fixed.matrix.set(...joint.origin);
    this.groups[joint.parent].add(fixed);
    const frame = SpaceView.triad(0.08 * size), axis = new THREE.Vector3(...joint.axis);
    this.layers.frames.push(frame);
    fixed.add(frame);
    const rod = SpaceView.lines([axis.clone().multiplyScalar(-0.12 * size).toArray(), axis.clone().multiplyScalar(0.12 * size).toArray()], this.lineMaterial);
    this.layers.frames.push(rod);
    fixed.add(rod);
    if (joint.lower === null || joint.upper === null) return;
    const points = [], radius = 0.11 * size, span = Math.min(joint.upper - joint.lower, 2 * Math.PI);
    if (joint.kind === "prismatic") points.push(axis.clone().multiplyScalar(joint.lower).toArray(), axis.clone().multiplyScalar(joint.upper).toArray());
    else {
      const side = Math.abs(axis.x) < 0.9 ? new THREE.Vector3(1, 0, 0) : new THREE.Vector3(0, 1, 0);
      const across = side.clone().addScaledVector(axis, -side.dot(axis)).normalize().multiplyScalar(radius);
      const at = (angle) => across.clone().applyAxisAngle(axis, angle).toArray();
      const steps = Math.max(4, Math.ceil(span / 0.12));
      for (let i = 0; i < steps; i++) points.push(at(joint.lower + (i * span) / steps), at(joint.lower + ((i + 1) * span) / steps));
      points.push([0, 0, 0], at(joint.lower), [0, 0, 0], at(joint.upper));
    }
    this.limitMaterial ??= new THREE.LineBasicMaterial();
    const arc = SpaceView.lines(points, this.limitMaterial);
    this.layers.limits.push(arc);
    fixed.add(arc);
    if (joint.kind !== "revolute") return;
    const hand = SpaceView.lines([[0, 0, 0], points[0].map((v) => v)], this.limitMaterial); /* turns with the joint */
    hand.userData = { joint: k, axis, lower: joint.lower };
    this.layers.limits.push(hand);
    (this.hands ??= []).push(hand);
    fixed.add(hand);
  }
  buildInertia(link, k, size) {
    if (!link.inertia) return;
    const { com, half, axes } = link.inertia;
    const material = new THREE.MeshLambertMaterial({ transparent: true, opacity: 0.5, depthWrite: false, userData: { role: link.impossible ? "bad" : "inertia" } });
    const ball = new THREE.Mesh(new THREE.SphereGeometry(1, 28, 18), material), least = 0.004 * size;
    ball.matrixAutoUpdate = false;
    const [a, b, c] = half.map((value) => Math.max(value, least));
    ball.matrix.set(axes[0] * a, axes[1] * b, axes[2] * c, com[0], axes[3] * a, axes[4] * b, axes[5] * c, com[1], axes[6] * a, axes[7] * b, axes[8] * c, com[2], 0, 0, 0, 1);
    const dot = new THREE.Mesh(new THREE.SphereGeometry(0.012 * size, 12, 8), new THREE.MeshBasicMaterial({ depthTest: false, userData: { role: link.impossible ? "bad" : "inertia" } }));
    dot.position.set(...com);
    dot.renderOrder = 3;
    this.put("inertia", k, ball);
    this.put("inertia", k, dot);
  }
  /* Add the path of the tip along the motion, and the direction of gravity. */
  buildPath() {
    const { tip, playback } = this.scene, at = new THREE.Vector3(), places = [];
    for (let row = 0; row < playback.times.length; row++) {
      this.chain.set(this.row_of(row));
      places.push(at.set(...tip.at).applyMatrix4(this.groups[tip.link].matrix).toArray());
    }
    this.pathMaterial = new THREE.LineBasicMaterial();
    const path = SpaceView.lines(places.slice(1).flatMap((place, k) => [places[k], place]), this.pathMaterial);
    this.layers.path.push(path);
    this.space.add(path);
  }
  buildGravity(size) {
    const gravity = new THREE.Vector3(...this.scene.gravity);
    if (gravity.length() < 1e-9) return;
    const down = gravity.normalize().multiplyScalar(0.25 * size), side = new THREE.Vector3(1, 0, 0);
    if (Math.abs(down.x) > 0.2 * size) side.set(0, 1, 0);
    const end = new THREE.Vector3(-0.35 * size, -0.35 * size, 0.3 * size).add(down), start = end.clone().sub(down);
    const barb = (sign) => end.clone().addScaledVector(down, -0.25).addScaledVector(side, sign * 0.04 * size).toArray();
    const arrow = SpaceView.lines([start.toArray(), end.toArray(), end.toArray(), barb(1), end.toArray(), barb(-1)], this.lineMaterial);
    this.layers.frames.push(arrow);
    this.space.add(arrow);
  }
  buildSurroundings(size) {
    const { scene } = this, reach = Math.max(0.4, Math.ceil(2.4 * size * 5) / 5), height = scene.floor ?? 0;
    this.grid = new THREE.GridHelper(2 * reach, 2 * Math.round(reach / (reach > 3 ? 0.5 : reach > 0.8 ? 0.2 : 0.1)));
    this.grid.rotation.x = Math.PI / 2;
    this.grid.position.z = height;
    this.space.add(this.grid, SpaceView.triad(0.22 * size));
    this.buildGravity(size);
    this.things = new THREE.MeshLambertMaterial({ transparent: true, opacity: 0.4 });
    for (const [low, high] of scene.boxes) {
      const box = new THREE.Mesh(new THREE.BoxGeometry(...low.map((value, k) => high[k] - value)), this.things);
      box.position.set(...low.map((value, k) => (value + high[k]) / 2));
      this.space.add(box);
    }
    for (const post of scene.posts) this.space.add(SpaceView.capsule(post, this.things));
    if (scene.workspace) {
      const [low, high] = scene.workspace, box = new THREE.BoxGeometry(...low.map((value, k) => high[k] - value));
      const edges = new THREE.LineSegments(new THREE.EdgesGeometry(box), this.lineMaterial);
      edges.position.set(...low.map((value, k) => (value + high[k]) / 2));
      this.space.add(edges);
    }
  }

  /* --- looks ------------------------------------------------------------------------------------------------ */
  paint() {
    const colours = (this.colours = SceneColours.read(this.area));
    this.glass.color = colours.volume;
    this.glassNear.color = colours.near;
    this.things.color = colours.limit;
    this.lineMaterial.color = colours.frame;
    if (this.limitMaterial) this.limitMaterial.color = colours.limit;
    if (this.pathMaterial) this.pathMaterial.color = colours.volume;
    for (const object of this.layers.inertia) object.material.color = colours[object.material.userData.role];
    const count = this.grid.geometry.attributes.color;
    for (let k = 0; k < count.count; k++) count.setXYZ(k, colours.floor.r, colours.floor.g, colours.floor.b);
    count.needsUpdate = true;
    this.tint();
    this.redraw();
  }
  /* Colour the links: the closest pair and impossible inertia in red, otherwise by residual or torque of their joint. */
  tint() {
    const near = this.near?.links ?? [], inertia = this.shown.inertia;
    this.materials.forEach((material, k) => {
      const plain = k % 2 ? this.colours[material.userData.role] : this.colours[material.userData.role].clone().multiplyScalar(0.86), share = k > 0 ? this.share(k - 1) : 0;
      const red = near.includes(k) || (inertia && this.scene.links[k].impossible);
      material.color = red ? this.colours.near : plain.clone().lerp(this.colours.near, share);
    });
    for (const volume of this.volumes) volume.material = near.includes(volume.userData.link) ? this.glassNear : this.glass;
  }
  /* Return the residual or torque of a joint relative to its largest torque, at the time that is shown. */
  share(joint) {
    const values = this.scene.playback?.[this.tinted];
    const primary = this.scene.joints[joint].primary;
    if (!values || primary === null) return 0;
    const count = this.scene.joints.filter((other) => other.primary !== null).length;
    return Math.min(1, (this.tinted === "residual" ? 4 : 1) * Packing.array(values)[this.row * count + primary]);
  }
  layer(name, on) {
    this.shown[name] = on;
    for (const object of this.layers[name]) object.visible = on;
    const faint = this.shown.inertia;
    for (const material of this.materials) Object.assign(material, { transparent: faint, opacity: faint ? 0.3 : 1, depthWrite: !faint, needsUpdate: true });
    if (this.colours) this.tint();
    this.redraw();
  }
  redraw() { this.stale = true; }
  render() {
    this.stale = false;
    const wide = this.area.clientWidth, high = Math.round(wide * (wide < 500 ? 0.95 : 0.62));
    if (!wide) return;
    if (wide !== this.wide) {
      this.wide = wide;
      this.renderer.setPixelRatio(Math.min(2, devicePixelRatio));
      this.renderer.setSize(wide, high);
      this.camera.aspect = wide / high;
      this.camera.updateProjectionMatrix();
    }
    this.renderer.render(this.space, this.camera);
  }
  /* Look at all of the robot, over its whole motion. */
  fit() {
    const low = new THREE.Vector3(Infinity, Infinity, Infinity), high = new THREE.Vector3(-Infinity, -Infinity, -Infinity), at = new THREE.Vector3(), points = [];
    const add = () => this.groups.forEach((group, k) => group.traverse((object) => {
      if (!object.isMesh || !this.layers.links.includes(object) && !this.layers.volumes.includes(object)) return;
      object.geometry.boundingBox ?? object.geometry.computeBoundingBox();
      const ends = [object.geometry.boundingBox.min, object.geometry.boundingBox.max];
      for (let i = 0; i < 8; i++) {
        at.set(ends[i & 1].x, ends[(i >> 1) & 1].y, ends[i >> 2].z).applyMatrix4(object.matrixWorld);
        low.min(at);
        high.max(at);
        points.push(at.clone());
      }
    }));
    const play = this.scene.playback, count = play?.times.length ?? 1;
    for (let k = 0; k < 12; k++) {
      if (play) this.pose(this.row_of(Math.round((k * (count - 1)) / 11)));
      add();
      if (!play) break;
    }
    if (!(high.x > low.x)) { low.set(-1, -1, 0).multiplyScalar(this.size); high.set(1, 1, 1).multiplyScalar(this.size); points.push(low, high); }
    this.centre = low.clone().add(high).multiplyScalar(0.5);
    this.corners = points.map((point) => point.clone().sub(this.centre));
    this.look();
    if (play) this.show(this.time);
  }
  look() {
    const back = new THREE.Vector3(0.72, -0.6, 0.4).normalize(), right = new THREE.Vector3().crossVectors(this.camera.up, back).normalize(), up = new THREE.Vector3().crossVectors(back, right);
    const high = 0.9 * Math.tan((this.camera.fov * Math.PI) / 360), wide = high * (this.area.clientWidth < 500 ? 1 / 0.95 : 1 / 0.62);
    const away = Math.max(...this.corners.map((at) => at.dot(back) + Math.max(Math.abs(at.dot(right)) / wide, Math.abs(at.dot(up)) / high)));
    this.camera.near = away / 200;
    this.camera.far = away * 40;
    this.camera.position.copy(this.centre).addScaledVector(back, away);
    this.camera.updateProjectionMatrix();
    this.controls?.target.copy(this.centre);
    this.camera.lookAt(this.centre);
    this.controls?.update();
    this.redraw();
  }
  turn(turn, tilt, zoom = 1) {
    const offset = this.camera.position.clone().sub(this.controls.target).applyQuaternion(new THREE.Quaternion().setFromUnitVectors(this.camera.up, new THREE.Vector3(0, 1, 0)));
    const round = new THREE.Spherical().setFromVector3(offset);
    round.theta += turn;
    round.phi = Math.max(0.05, Math.min(Math.PI - 0.05, round.phi - tilt));
    round.radius *= zoom;
    offset.setFromSpherical(round).applyQuaternion(new THREE.Quaternion().setFromUnitVectors(new THREE.Vector3(0, 1, 0), this.camera.up));
    this.camera.position.copy(this.controls.target).add(offset);
    this.controls.update();
    this.redraw();
  }

  /* --- pose and time ---------------------------------------------------------------------------------------- */
  pose(positions) {
    this.positions = positions;
    this.chain.set(positions);
    for (const hand of this.hands ?? []) hand.setRotationFromAxisAngle(hand.userData.axis, positions[hand.userData.joint] - hand.userData.lower);
    this.redraw();
  }
  row_of(row) {
    const count = this.scene.joints.length, all = Packing.array(this.scene.playback.joints);
    return Array.from(all.subarray(row * count, (row + 1) * count));
  }
  show(time) {
    const play = this.scene.playback, last = play.times.length - 1;
    this.time = Math.max(play.times[0], Math.min(play.times[last], time));
    const after = Math.max(1, Math.min(last, Plot.search(play.times, this.time)));
    const part = last ? (this.time - play.times[after - 1]) / (play.times[after] - play.times[after - 1] || 1) : 0;
    this.row = part > 0.5 ? after : after - 1;
    const [a, b] = [this.row_of(after - 1), this.row_of(Math.min(after, last))];
    this.pose(a.map((value, k) => value + part * (b[k] - value)));
    this.mark();
    if (this.colours) this.tint();
    this.slider.value = this.time;
    const phase = play.phases.find(([, begin, end]) => this.time >= begin && this.time <= end)?.[0] ?? "";
    const text = `${this.time.toFixed(1)} s${play.phases.length > 1 ? `, ${phase}` : ""}`;
    this.clock.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
    for (const plot of Plot.all.filter((plot) => plot.group === "view" && plot.line && plot.area.clientWidth)) {
      const at = plot.x.at(this.time), inside = at >= plot.x.from && at <= plot.x.to;
      plot.now ??= Svg.add(plot.svg, "line", { class: "now" });
      if (!plot.now.isConnected) plot.svg.append(plot.now);
      for (const [key, value] of [["x1", at], ["x2", at], ["y1", 10], ["y2", plot.bottom], ["visibility", inside ? "visible" : "hidden"]]) plot.now.setAttribute(key, value);
    }
  }
  /* Mark the closest pair at the time that is shown. */
  mark() {
    const closest = this.scene.playback.closest;
    if (!closest) return;
    const after = Math.min(closest.times.length - 1, Plot.search(closest.times, this.time));
    const pair = closest.pairs[after];
    this.near = { links: closest.links[pair] };
    if (!this.label) return;
    this.label.hidden = false;
    this.label.textContent = `closest: ${closest.names[pair]}, ${(1000 * closest.gaps[after]).toFixed(0).replace("-", "\u2212")} mm`;
  }
  play(on) {
    this.playing = on;
    this.button.textContent = on ? "❚❚" : "▶";
    this.button.setAttribute("aria-label", on ? "Pause" : "Play");
    const times = this.scene.playback.times, end = times[times.length - 1];
    if (on && this.time >= end) this.show(times[0]);
    let before = null;
    const step = (now) => {
      if (!this.playing) return;
      if (before !== null) this.show(this.time + ((now - before) / 1000) * this.speed);
      before = now;
      if (this.time >= end) return this.play(false);
      requestAnimationFrame(step);
    };
    if (on) requestAnimationFrame(step);
  }

  /* --- controls --------------------------------------------------------------------------------------------- */
  buildBar() {
    const bar = Page.make("div", "bar"), tools = Page.make("div", "tools");
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", "View");
    for (const [text, label, ...step] of [["←", "Turn left", 0.25, 0], ["→", "Turn right", -0.25, 0], ["↑", "Tilt up", 0, -0.15], ["↓", "Tilt down", 0, 0.15], ["+", "Nearer", 0, 0, 0.8], ["−", "Farther", 0, 0, 1.25]]) tools.append(Page.button(text, label, () => this.turn(...step)));
    tools.append(Page.button("All", "Show all", () => this.look()));
    bar.append(tools);
    const choices = Page.make("div", "choices");
    const has = { links: true, volumes: this.layers.volumes.length > 0, frames: true, inertia: this.layers.inertia.length > 0, limits: this.layers.limits.length > 0, path: this.layers.path.length > 0 };
    const first = { path: !this.scene.playback?.closest, links: true, volumes: Boolean(this.scene.playback?.closest), frames: false, inertia: !this.scene.playback && this.scene.links.some((link) => link.impossible), limits: false };
    for (const [name, text] of [["links", "Links"], ["volumes", "Volumes"], ["frames", "Joint frames"], ["inertia", "Inertia"], ["limits", "Limits"], ["path", "Path of the tip"]]) {
      if (!has[name]) continue;
      const label = Page.make("label", "choice"), box = Object.assign(Page.make("input"), { type: "checkbox", checked: first[name] });
      box.addEventListener("change", () => this.layer(name, box.checked));
      label.append(box, document.createTextNode(text));
      choices.append(label);
      this.layer(name, first[name]);
    }
    bar.append(choices);
    this.figure.insertBefore(bar, this.area);
    if (this.scene.playback) this.figure.insertBefore(this.timeline(), this.area);
  }
  timeline() {
    const play = this.scene.playback, row = Page.make("div", "bar timeline"), end = play.times[play.times.length - 1];
    this.button = Page.button("▶", "Play", () => this.play(!this.playing));
    this.button.classList.add("play");
    const label = Page.make("label", "choice", "Time");
    this.slider = Object.assign(Page.make("input"), { type: "range", min: 0, max: end, step: end / 2000, value: 0 });
    this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
    this.clock = Page.make("output", "", "0 s");
    label.append(this.slider, this.clock);
    row.append(this.button, label);
    if (play.phases.length > 1) {
      const jump = Page.make("div", "tools");
      jump.setAttribute("role", "group");
      jump.setAttribute("aria-label", "Parts of the motion");
      for (const [name, begin] of play.phases) jump.append(Page.button(name, `Go to ${name}`, () => this.show(begin)));
      row.append(jump);
    }
    const pace = Page.make("label", "choice", "Speed"), choice = Page.make("select");
    const paces = [[1, play.rehearsal === null ? "1×" : "motion"], [0.25, "0.25×"], [4, "4×"]];
    if (play.rehearsal !== null && play.rehearsal < 1) paces.splice(1, 0, [play.rehearsal, `rehearsal, ${(100 * play.rehearsal).toFixed(0)} %`]);
    for (const [value, text] of paces) choice.append(Object.assign(Page.make("option", "", text), { value }));
    choice.addEventListener("change", () => { this.speed = Number(choice.value); });
    pace.append(choice);
    row.append(pace);
    if (play.residual && play.torque) {
      const shade = Page.make("label", "choice", "Colour"), by = Page.make("select");
      for (const [value, text] of [["residual", "residual"], ["torque", "torque"]]) by.append(Object.assign(Page.make("option", "", text), { value }));
      by.addEventListener("change", () => { this.tinted = by.value; this.tint(); this.redraw(); });
      shade.append(by);
      row.append(shade);
    }
    return row;
  }
  /* Create a slider for each primary joint. */
  sliders(place) {
    if (!place) return;
    const { scene } = this, names = scene.joints.filter((joint) => joint.primary !== null);
    const inputs = [], values = [...scene.home];
    const set = (k) => {
      const how = scene.dependence;
      if (how.kind === "affine") return this.pose(how.offset.map((offset, i) => how.matrix[i].reduce((sum, part, j) => sum + part * values[j], offset)));
      const count = scene.joints.length, table = how.positions[k], all = Packing.array(how.joints[k]);
      inputs.forEach((input, j) => { if (j !== k) { values[j] = scene.home[j]; input.show(); } }); /* a table holds the others at home */
      const row = Math.max(0, Math.min(table.length - 1, Plot.search(table, values[k])));
      this.pose(Array.from(all.subarray(row * count, (row + 1) * count)));
    };
    names.forEach((joint, k) => {
      const table = scene.dependence.positions?.[k], low = table ? table[0] : scene.ranges[0][k], high = table ? table[table.length - 1] : scene.ranges[1][k];
      const label = Page.make("label", "choice slider"), name = Page.make("span", "name", joint.name);
      const input = Object.assign(Page.make("input"), { type: "range", min: low, max: high, step: (high - low) / 1000 || 1, value: values[k] }), output = Page.make("output");
      input.show = () => {
        input.value = values[k];
        output.textContent = joint.unit === "rad" ? `${((values[k] * 180) / Math.PI).toFixed(0).replace("-", "\u2212")}°` : `${values[k].toFixed(3).replace("-", "\u2212")} m`;
        input.setAttribute("aria-valuetext", output.textContent);
      };
      input.addEventListener("input", () => { values[k] = Number(input.value); input.show(); set(k); });
      input.show();
      inputs.push(input);
      label.append(name, input, output);
      place.append(label);
    });
    place.append(Page.button("Home", "Move all joints home", () => { scene.home.forEach((value, k) => { values[k] = value; inputs[k].show(); }); this.pose([...scene.rest]); }));
  }
  listen() {
    this.area.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const act = { ArrowLeft: () => this.turn(0.15, 0), ArrowRight: () => this.turn(-0.15, 0), ArrowUp: () => this.turn(0, -0.1), ArrowDown: () => this.turn(0, 0.1), "+": () => this.turn(0, 0, 0.8), "=": () => this.turn(0, 0, 0.8), "-": () => this.turn(0, 0, 1.25), 0: () => this.look() }[event.key] ?? (event.key === " " && this.scene.playback ? () => this.play(!this.playing) : null);
      if (!act) return;
      event.preventDefault();
      act();
    });
    this.area.addEventListener("wheel", (event) => { if (!event.ctrlKey && !event.metaKey) event.stopPropagation(); }, { capture: true });
    new ResizeObserver(() => this.redraw()).observe(this.area);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    document.getElementById("theme").addEventListener("click", () => setTimeout(() => this.paint()));
    const play = this.scene.playback;
    if (!play) return;
    for (const plot of Plot.all.filter((plot) => plot.group === "view")) {
      plot.svg.addEventListener("click", (event) => {
        if (!plot.x) return;
        const box = plot.svg.getBoundingClientRect(), at = ((event.clientX - box.left) * plot.svg.viewBox.baseVal.width) / box.width;
        if (at >= plot.x.from && at <= plot.x.to) this.show(plot.x.back(at));
      });
    }
    for (const peak of document.querySelectorAll("button[data-time]")) peak.addEventListener("click", () => { document.querySelectorAll("#torque [role=tab]")[Number(peak.dataset.joint)].click(); this.show(Number(peak.dataset.time)); this.figure.scrollIntoView({ block: "nearest" }); });
  }
}
if (Numbers.scene) window.view = new SpaceView(document.getElementById("space-view"), Numbers.scene);
