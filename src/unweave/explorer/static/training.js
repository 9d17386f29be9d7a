/** Training: every term over the steps, live while the run trains. */

import * as api from "./api.js";
import { keepBar, quoted, shellWord } from "./keep.js";
import { csvBlob, el, svg } from "./parts.js";
import { asBlob } from "./pictures.js";
import { colour, extent, sheet, short, ticks, write } from "./plots.js";
import { state } from "./state.js";

const EVERY = 2000;
const BOX = { width: 320, height: 150, left: 48, right: 10, top: 8, bottom: 22 };
/** The first steps are often far off: unless asked for, the scale is that of the rest. */
const SETTLED = 0.05;
const NOT_TERMS = ["step", "seconds"];

export const create = (app) => new Training(app);

class Training {
  constructor(app) {
    Object.assign(this, { app, run: null, columns: {}, steps: 0, live: false, timer: 0, charts: [] });
    this.progress = el("progress", { max: 1, value: 0, "aria-label": "Training" });
    this.words = el("span", { role: "status", id: "training-status" });
    this.whole = el("input", { type: "checkbox", id: "whole-range", onchange: () => this.chooseRange() });
    this.grid = el("div", { class: "charts" });
    this.keep = keepBar(app, {
      name: () => `${app.run}-log`,
      files: { png: () => this.png(), csv: () => this.csv() },
      code: async () => this.code(),
    });
    const head = el("div", { class: "training-head card" }, el("h2", {}, "Terms over training"), this.words, this.progress, el("label", { class: "check" }, this.whole, "scale to the first steps too"));
    this.root = el("div", { class: "view-body" }, el("div", { class: "training" }, head, this.grid), this.keep.root);
  }

  async show() {
    const { run } = this.app;
    if (this.run !== run) Object.assign(this, { run, columns: {} });
    this.whole.checked = state.get("whole") === "1";
    await this.load();
    clearInterval(this.timer);
    this.timer = setInterval(() => this.poll(), EVERY);
  }

  changed() {
    return this.show();
  }

  hide() {
    clearInterval(this.timer);
  }

  poll() {
    if (this.live && !document.hidden) this.app.attempt(() => this.load());
  }

  /** Ask for what is new and add it. */
  async load() {
    const { run } = this;
    const since = this.last();
    const found = await api.log(run, since);
    if (run !== this.run || since !== this.last()) return; // an answer that overtook this one has brought these steps
    for (const [name, values] of Object.entries(found.columns)) this.columns[name] = [...(this.columns[name] ?? []), ...values];
    Object.assign(this, { steps: found.steps, live: found.training });
    this.showWords();
    if (found.columns.step.length || !this.charts.length) this.draw();
  }

  last() {
    return this.columns.step?.at(-1) ?? -1;
  }

  showWords() {
    const at = this.columns.step?.at(-1) ?? 0;
    const done = this.live ? "" : ", done";
    this.words.textContent = `step ${at.toLocaleString("en")} of ${this.steps.toLocaleString("en")}${done}`;
    this.words.classList.toggle("live", this.live);
    this.progress.value = this.steps ? at / this.steps : 0;
  }

  chooseRange() {
    state.set({ whole: this.whole.checked ? "1" : null });
    this.draw();
  }

  terms() {
    return Object.keys(this.columns).filter((name) => !NOT_TERMS.includes(name));
  }

  // Charts ------------------------------------------------------------------------------------------------------

  draw() {
    this.charts = this.terms().map((name) => this.chart(name));
    this.grid.replaceChildren(...this.charts);
    if (!this.charts.length) this.grid.append(el("p", { class: "note" }, "Nothing is written yet: the first terms come with the first steps."));
  }

  /** Where a term's line goes: the scales, and its points. */
  layout(name) {
    const steps = this.columns.step;
    const values = this.columns[name];
    const skip = this.whole.checked ? 0 : Math.floor(values.length * SETTLED);
    const [low, high] = extent(values.slice(skip).filter((value) => value !== null), 0.08);
    const [first, last] = [0, Math.max(this.steps, steps.at(-1) ?? 1)];
    const x = (step) => BOX.left + ((step - first) / (last - first)) * (BOX.width - BOX.left - BOX.right);
    const y = (value) => BOX.top + (1 - (value - low) / (high - low)) * (BOX.height - BOX.top - BOX.bottom);
    const points = steps.map((step, place) => [x(step), values[place], step]).filter(([, value]) => value !== null);
    return { x, y, low, high, first, last, points: points.map(([across, value, step]) => ({ x: across, y: y(value), value, step })) };
  }

  chart(name) {
    const plan = this.layout(name);
    const value = el("span", { class: "value" }, plan.points.length ? short(plan.points.at(-1).value) : "");
    const drawing = this.drawing(name, plan);
    const cursor = svg("line", { y1: BOX.top, y2: BOX.height - BOX.bottom, class: "cursor", visibility: "hidden" });
    drawing.append(cursor);
    this.readOut(drawing, cursor, value, plan);
    return el("figure", { class: "chart card", "data-term": name }, el("figcaption", {}, el("strong", {}, name.replaceAll("_", " ")), value), drawing);
  }

  drawing(name, plan) {
    const last = plan.points.at(-1);
    const root = svg("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": last ? `${name}: ${short(last.value)} at step ${last.step}` : name });
    const clip = `clip-${name.replace(/\W/g, "-")}`;
    const inner = { x: BOX.left, y: BOX.top - 2, width: BOX.width - BOX.left - BOX.right, height: BOX.height - BOX.top - BOX.bottom + 4 };
    root.append(svg("clipPath", { id: clip }, svg("rect", inner)));
    for (const tick of ticks(plan.low, plan.high, 4)) {
      root.append(svg("line", { x1: BOX.left, x2: BOX.width - BOX.right, y1: plan.y(tick), y2: plan.y(tick), class: "rule" }));
      root.append(text(short(tick), BOX.left - 6, plan.y(tick) + 3.5, "end"));
    }
    for (const tick of ticks(plan.first, plan.last, 4)) root.append(text(short(tick), plan.x(tick), BOX.height - 6, plan.x(tick) > BOX.width - 30 ? "end" : "middle"));
    const path = plan.points.map(({ x, y }, place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    root.append(svg("path", { d: path, class: "curve", "clip-path": `url(#${clip})` }));
    return root;
  }

  /** Tell the value under the pointer. */
  readOut(drawing, cursor, output, plan) {
    const last = output.textContent;
    drawing.addEventListener("pointermove", (event) => {
      const x = (event.offsetX / drawing.clientWidth) * BOX.width;
      const near = plan.points.reduce((best, each) => (!best || Math.abs(each.x - x) < Math.abs(best.x - x) ? each : best), null);
      if (!near) return;
      cursor.setAttribute("x1", near.x);
      cursor.setAttribute("x2", near.x);
      cursor.setAttribute("visibility", "visible");
      output.textContent = `${short(near.value)} at step ${near.step.toLocaleString("en")}`;
    });
    drawing.addEventListener("pointerleave", () => {
      cursor.setAttribute("visibility", "hidden");
      output.textContent = last;
    });
  }

  // What the visitor keeps ----------------------------------------------------------------------------------------

  png() {
    const names = this.terms();
    const across = Math.min(3, names.length);
    const { canvas, context } = sheet(across * BOX.width, Math.ceil(names.length / across) * (BOX.height + 34));
    names.forEach((name, place) => {
      context.save();
      context.translate((place % across) * BOX.width, Math.floor(place / across) * (BOX.height + 34) + 28);
      this.paint(context, name);
      context.restore();
    });
    return asBlob(canvas);
  }

  paint(context, name) {
    const plan = this.layout(name);
    write(context, name.replaceAll("_", " "), BOX.left, -10, { weight: 600, ink: colour("ink") });
    context.strokeStyle = colour("line");
    for (const tick of ticks(plan.low, plan.high, 4)) {
      trace(context, [{ x: BOX.left, y: plan.y(tick) }, { x: BOX.width - BOX.right, y: plan.y(tick) }]);
      write(context, short(tick), BOX.left - 6, plan.y(tick), { align: "right", size: 10 });
    }
    for (const tick of ticks(plan.first, plan.last, 4)) write(context, short(tick), plan.x(tick), BOX.height - 8, { align: plan.x(tick) > BOX.width - 30 ? "right" : "center", size: 10 });
    context.beginPath();
    context.rect(BOX.left, BOX.top - 2, BOX.width - BOX.left - BOX.right, BOX.height - BOX.top - BOX.bottom + 4);
    context.clip();
    context.strokeStyle = colour("accent");
    context.lineWidth = 1.5;
    trace(context, plan.points);
  }

  csv() {
    const names = Object.keys(this.columns);
    const lines = (this.columns.step ?? []).map((_, line) => names.map((name) => this.columns[name][line] ?? ""));
    return csvBlob([names, ...lines]);
  }

  code() {
    const path = this.app.about?.path ?? this.run;
    return [
      ["Python", `unweave.Run.open(${quoted(path)}).log()`],
      ["Command line", `unweave report ${shellWord(path)}`],
    ];
  }
}

function text(words, x, y, anchor) {
  return svg("text", { x, y, "text-anchor": anchor, class: "tick" }, words);
}

function trace(context, points) {
  context.beginPath();
  points.forEach(({ x, y }, place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}
