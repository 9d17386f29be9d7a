/** A scatter on a canvas: hover tells of a point, a click opens it, arrow keys move a cross to the points near it. */

import { rowPicture } from "./api.js";
import { button, el } from "./parts.js";
import { asBlob } from "./pictures.js";
import { colour, drawLegend, extent, sheet, short, ticks, write } from "./plots.js";

const MARGIN = { left: 56, right: 14, top: 12, bottom: 44 };
const LEGEND = 104;
const NEAR = 6;
const REACH = 16;
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Scatter {
  /**
   * open:  told of the row that was chosen
   * words: what is said of a point, by its number
   * height: the least, in pixels; the style sheet may give more
   */
  constructor(app, { open, words, testid, height = 340 }) {
    Object.assign(this, { app, open, words, data: null, cross: null });
    this.canvas = el("canvas", { class: "scatter", tabindex: 0, role: "application", "data-testid": testid });
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.near = el("div", { class: "near-rows", role: "group", "aria-label": "Rows to open" });
    this.ground = el("div", { class: "scatter-ground" }, this.canvas, this.tip);
    this.root = el("div", { class: "scatter-part" }, this.ground, this.near);
    this.ground.style.minHeight = `${height}px`;
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    addEventListener("unweave-theme", () => this.draw());
  }

  listen() {
    const at = (event) => this.nearest(event.offsetX, event.offsetY, REACH)[0];
    this.canvas.addEventListener("pointermove", (event) => this.hover(at(event)));
    this.canvas.addEventListener("pointerleave", () => this.hover(undefined));
    this.canvas.addEventListener("click", (event) => this.openPoint(at(event)));
    this.canvas.addEventListener("focus", () => this.moveCross([0, 0]));
    this.canvas.addEventListener("blur", () => this.draw());
    this.canvas.addEventListener("keydown", (event) => {
      if (KEYS[event.key]) {
        event.preventDefault();
        this.moveCross(KEYS[event.key]);
      } else if (event.key === "Enter" && this.cross) this.openPoint(this.nearest(...this.cross)[0]);
    });
  }

  /**
   * data: {xs, ys, xTitle, yTitle, rows, colours, legend, xTicks, yTicks}; ticks as [[place, name], ...] where the
   * axis has names
   */
  show(data) {
    this.data = data;
    const legend = data.legend ? `, coloured by ${data.legend.title}` : "";
    this.canvas.setAttribute("aria-label", `${data.xs.length} points: ${data.yTitle} against ${data.xTitle}${legend}. Arrow keys move a cross, Enter opens the nearest row.`);
    this.cross = null;
    this.draw();
    this.showNear();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!this.data || !width) return;
    const fine = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * fine, height: height * fine });
    const context = this.canvas.getContext("2d");
    context.scale(fine, fine);
    this.paint(context, width, height);
    if (this.cross && document.activeElement === this.canvas) this.paintCross(context);
  }

  frame(width, height) {
    const right = MARGIN.right + (this.data.legend ? LEGEND : 0);
    return { left: MARGIN.left, top: MARGIN.top, width: width - MARGIN.left - right, height: height - MARGIN.top - MARGIN.bottom };
  }

  paint(context, width, height) {
    const { xs, ys, colours, legend } = this.data;
    const box = this.frame(width, height);
    const [[x0, x1], [y0, y1]] = [extent(xs), extent(ys)];
    const place = (x, y) => [box.left + ((x - x0) / (x1 - x0)) * box.width, box.top + (1 - (y - y0) / (y1 - y0)) * box.height];
    this.paintAxes(context, box, { x0, x1, y0, y1, place });
    this.places = xs.map((x, point) => place(x, ys[point]));
    context.globalAlpha = 0.72;
    this.places.forEach(([x, y], point) => {
      context.fillStyle = colours ? colours[point] : colour("accent");
      context.beginPath();
      context.arc(x, y, 2.6, 0, 7);
      context.fill();
    });
    context.globalAlpha = 1;
    if (legend) drawLegend(context, legend, width - LEGEND, MARGIN.top + 8);
  }

  paintAxes(context, box, { x0, x1, y0, y1, place }) {
    const { xTitle, yTitle, xTicks, yTicks } = this.data;
    const named = (given, low, high) => given ?? ticks(low, high).map((tick) => [tick, short(tick)]);
    context.strokeStyle = colour("line");
    context.lineWidth = 1;
    const line = (...ends) => {
      context.beginPath();
      context.moveTo(ends[0], ends[1]);
      context.lineTo(ends[2], ends[3]);
      context.stroke();
    };
    for (const [tick, name] of named(xTicks, x0, x1)) {
      const [x] = place(tick, y0);
      line(x, box.top, x, box.top + box.height);
      write(context, name, x, box.top + box.height + 13, { align: "center", size: 11 });
    }
    for (const [tick, name] of named(yTicks, y0, y1)) {
      const [, y] = place(x0, tick);
      line(box.left, y, box.left + box.width, y);
      write(context, name, box.left - 8, y, { align: "right", size: 11 });
    }
    write(context, xTitle, box.left + box.width / 2, box.top + box.height + 32, { align: "center", ink: colour("ink") });
    context.save();
    context.translate(13, box.top + box.height / 2);
    context.rotate(-Math.PI / 2);
    write(context, yTitle, 0, 0, { align: "center", ink: colour("ink") });
    context.restore();
  }

  paintCross(context) {
    const [x, y] = this.cross;
    context.strokeStyle = colour("warm");
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x - 9, y);
    context.lineTo(x + 9, y);
    context.moveTo(x, y - 9);
    context.lineTo(x, y + 9);
    context.stroke();
  }

  /** Numbers of the points near a place, nearest first. */
  nearest(x, y, reach = Infinity, most = NEAR) {
    const far = (point) => Math.hypot(this.places[point][0] - x, this.places[point][1] - y);
    const all = (this.places ?? []).map((_, point) => [far(point), point]).filter(([distance]) => distance <= reach);
    return all.sort((a, b) => a[0] - b[0]).slice(0, most).map(([, point]) => point);
  }

  hover(point) {
    this.tip.hidden = point === undefined;
    this.canvas.style.cursor = point === undefined ? "" : "pointer";
    if (point === undefined) return;
    const [x, y] = this.places[point];
    const row = this.data.rows[point];
    const picture = row === undefined ? null : el("img", { src: rowPicture(this.app.run, row), alt: "", class: "picture" });
    if (this.tip.dataset.point !== String(point)) this.tip.replaceChildren(...[picture, el("span", {}, this.words(point))].filter(Boolean));
    this.tip.dataset.point = point;
    const left = x > this.canvas.clientWidth / 2;
    this.tip.style.left = `${x + (left ? -12 : 12)}px`;
    this.tip.style.top = `${y}px`;
    this.tip.classList.toggle("left", left);
  }

  openPoint(point) {
    const row = this.data?.rows[point];
    if (row !== undefined) this.open(row);
  }

  moveCross([right, down]) {
    const box = this.frame(this.canvas.clientWidth, this.canvas.clientHeight);
    const [x, y] = this.cross ?? [box.left + box.width / 2, box.top + box.height / 2];
    const clamp = (number, low, length) => Math.max(low, Math.min(low + length, number));
    this.cross = [clamp(x + 12 * right, box.left, box.width), clamp(y + 12 * down, box.top, box.height)];
    this.draw();
    this.showNear();
  }

  /** The rows near the cross as buttons: the way to points without a mouse. */
  showNear() {
    if (!this.data?.rows.length || !this.canvas.clientWidth) return this.near.replaceChildren();
    const box = this.frame(this.canvas.clientWidth, this.canvas.clientHeight);
    const [x, y] = this.cross ?? [box.left + box.width / 2, box.top + box.height / 2];
    return this.near.replaceChildren(el("span", { class: "hint" }, this.cross ? "Near the cross" : "In the middle"), ...this.nearest(x, y).map((point) => this.nearButton(point)));
  }

  nearButton(point) {
    const row = this.data.rows[point];
    const label = `Open ${this.words(point)}`;
    return button(el("img", { src: rowPicture(this.app.run, row), alt: "", class: "picture", loading: "lazy" }), () => this.open(row), { class: "thumb", title: label, "aria-label": label, "data-row": row });
  }

  png() {
    const { canvas, context } = sheet(760, 520);
    const places = this.places;
    this.paint(context, 760, 520);
    this.places = places;
    return asBlob(canvas);
  }
}
