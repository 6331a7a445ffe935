"use strict";
/* Draw the link meshes as triangles in the same parallel projection, shaded by their orientation to the viewer. */
const VERTEX = `#version 300 es
in vec3 corner; uniform mat4 seen; out vec3 at;
void main() { vec4 place = seen * vec4(corner, 1.0); at = place.xyz; gl_Position = place; }`;
const FRAGMENT = `#version 300 es
precision highp float; in vec3 at; uniform vec3 colour; uniform vec2 shape; out vec4 drawn;
void main() {
  vec3 place = vec3(at.x * shape.x, at.y, -at.z * shape.y), normal = normalize(cross(dFdx(place), dFdy(place)));
  float light = 0.45 + 0.4 * abs(normal.z) + 0.15 * max(0.0, dot(normal, normalize(vec3(-0.4, 0.8, 0.4))));
  drawn = vec4(colour * light, 1.0);
}`;
class MeshLayer {
  /* Return the layer of a figure; null if the browser has no WebGL 2. */
  static on(area, skeleton) {
    const canvas = Page.make("canvas", "meshes");
    canvas.setAttribute("aria-hidden", "true");
    const gl = canvas.getContext("webgl2", { antialias: true, alpha: true, preserveDrawingBuffer: true });
    if (!gl) return null;
    area.prepend(canvas);
    return new MeshLayer(canvas, gl, skeleton);
  }
  constructor(canvas, gl, skeleton) {
    Object.assign(this, { canvas, gl, skeleton, places: Packing.array(skeleton.places), program: gl.createProgram() });
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    gl.useProgram(this.program);
    gl.enable(gl.DEPTH_TEST);
    this.where = Object.fromEntries(["seen", "colour", "shape"].map((name) => [name, gl.getUniformLocation(this.program, name)]));
    this.parts = skeleton.meshes.map((part) => this.loaded(part));
    this.links = skeleton.places ? this.places.length / (12 * skeleton.frames.length) : 0;
  }
  loaded(part) {
    const { gl } = this, corners = Float32Array.from(Packing.array(part.corners)), faces = Packing.array(part.faces), vertices = gl.createVertexArray();
    gl.bindVertexArray(vertices);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, corners, gl.STATIC_DRAW);
    const place = gl.getAttribLocation(this.program, "corner");
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, 3, gl.FLOAT, false, 0, 0);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, faces, gl.STATIC_DRAW);
    const low = [0, 1, 2].map((axis) => MeshLayer.end(corners, axis, Math.min)), high = [0, 1, 2].map((axis) => MeshLayer.end(corners, axis, Math.max));
    return { vertices, link: part.link, count: faces.length, type: faces instanceof Uint16Array ? gl.UNSIGNED_SHORT : gl.UNSIGNED_INT, low, high };
  }
  static end(corners, axis, least) {
    let extreme = corners[axis];
    for (let k = axis; k < corners.length; k += 3) extreme = least(extreme, corners[k]);
    return extreme;
  }
  /* Return the rows of a link's pose. */
  pose(frame, link) {
    const start = 12 * (frame * this.links + link);
    return this.places.subarray(start, start + 12);
  }
  /* Return the corners of the boxes around all parts in some poses, which must be visible. */
  *extent() {
    for (let frame = 0; frame < this.skeleton.frames.length; frame += 10) {
      for (const part of this.parts) {
        const P = this.pose(frame, part.link);
        for (let k = 0; k < 8; k++) {
          const [x, y, z] = [0, 1, 2].map((axis) => ((k >> axis) & 1 ? part.high : part.low)[axis]);
          yield [0, 4, 8].map((row) => P[row] * x + P[row + 1] * y + P[row + 2] * z + P[row + 3]);
        }
      }
    }
  }
  /* Draw a pose as seen by `view`: its projection is linear, so that four points determine it. */
  draw(view) {
    const { gl, canvas } = this, dense = Math.min(2, devicePixelRatio || 1), tall = 0.75 * view.wide;
    const [wide, high] = [Math.round(dense * view.wide), Math.round(dense * tall)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    gl.viewport(0, 0, wide, high);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const deep = 4 * view.size, clip = ([x, y, depth]) => [(2 * x) / view.wide - 1, 1 - (2 * y) / tall, depth / deep];
    const origin = clip(view.seen([0, 0, 0])), axes = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map((axis) => clip(view.seen(axis)).map((value, k) => value - origin[k]));
    gl.uniform2f(this.where.shape, view.wide / tall, (deep * 2 * view.scale) / tall);
    const colours = ["--mesh", "--mesh-base"].map((name) => getComputedStyle(canvas).getPropertyValue(name).split(" ").map((value) => Number(value) / 255));
    for (const part of this.parts) {
      const P = this.pose(view.pose, part.link), matrix = new Float32Array(16);
      for (let column = 0; column < 4; column++) {
        for (let row = 0; row < 3; row++) {
          let value = column === 3 ? origin[row] : 0;
          for (let axis = 0; axis < 3; axis++) value += axes[axis][row] * P[4 * axis + column];
          matrix[4 * column + row] = value;
        }
      }
      matrix[15] = 1;
      gl.uniformMatrix4fv(this.where.seen, false, matrix);
      gl.uniform3fv(this.where.colour, colours[part.link === 0 ? 1 : 0]);
      gl.bindVertexArray(part.vertices);
      gl.drawElements(gl.TRIANGLES, part.count, part.type, 0);
    }
  }
}
