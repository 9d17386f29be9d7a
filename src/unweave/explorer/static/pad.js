/** Two dimensions at once: a square whose ground is a map of what the system makes there. */

import * as api from "./api.js";
import { findKnob, range, realKnobs, STRIP_REACH, turned, valueOf } from "./codes.js";
import { el, fillSelect, labelled } from "./parts.js";
import { PAGE, fit } from "./pictures.js";
import { state } from "./state.js";

const CELLS = 7;
const STEPS = 40;
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export class Pad {
  /** turn: told of [[name, value], [name, value]] */
  constructor(app, { turn }) {
    Object.assign(this, { app, turn, about: null, place: [0.5, 0.5], drawing: 0 });
    this.selects = ["x", "y"].map((axis) =>
      el("select", { id: `pad-${axis}`, onchange: () => this.choose(axis) }),
    );
    this.ground = el("canvas", { class: "picture", width: 1, height: 1, "aria-hidden": "true" });
    this.thumb = el("span", { class: "pad-thumb" });
    this.square = el(
      "div",
      { class: "pad", id: "pad", tabindex: 0, role: "application", "aria-roledescription": "two-dimensional slider" },
      this.ground,
      this.thumb,
    );
    this.words = el("p", { class: "pad-words", "aria-live": "polite" });
    this.root = el(
      "section",
      { class: "pad-card card", "aria-label": "Two dimensions at once" },
      el("div", { class: "pad-head" }, el("h2", {}, "Pad"), el("span", { class: "inline" }, labelled("across", this.selects[0]), labelled("up", this.selects[1]))),
      this.square,
      this.words,
    );
    this.listen();
  }

  listen() {
    const move = (event) => {
      const box = this.square.getBoundingClientRect();
      const part = (at, start, length) => Math.max(0, Math.min(1, (at - start) / length));
      this.moveTo(part(event.clientX, box.left, box.width), 1 - part(event.clientY, box.top, box.height));
    };
    this.square.addEventListener("pointerdown", (event) => {
      this.square.setPointerCapture(event.pointerId);
      move(event);
    });
    this.square.addEventListener("pointermove", (event) => {
      if (this.square.hasPointerCapture(event.pointerId)) move(event);
    });
    this.square.addEventListener("keydown", (event) => {
      const step = KEYS[event.key];
      if (!step) return;
      event.preventDefault();
      const size = event.shiftKey ? 4 / STEPS : 1 / STEPS;
      const clamp = (number) => Math.max(0, Math.min(1, number));
      this.moveTo(clamp(this.place[0] + step[0] * size), clamp(this.place[1] + step[1] * size));
    });
  }

  build(about) {
    this.about = about;
    const real = realKnobs(about);
    this.root.hidden = real.length < 2 || !about.can.decode;
    if (this.root.hidden) return;
    ["x", "y"].forEach((axis, number) => {
      const asked = findKnob(about, state.get(axis));
      const name = asked?.kind === "real" ? asked.name : real[number].name;
      fillSelect(this.selects[number], real.map((knob) => [knob.name, knob.name]), name);
    });
  }

  /** A choice of what moves; a dimension does not move both ways. */
  choose(axis) {
    const [x, y] = this.selects.map((select) => select.value);
    if (x === y) {
      const other = this.selects[axis === "x" ? 1 : 0];
      other.value = realKnobs(this.about).find((knob) => knob.name !== x).name;
    }
    state.set({ x: this.selects[0].value, y: this.selects[1].value });
    this.show(this.code);
    this.app.attempt(() => this.draw(this.code));
  }

  knobs() {
    return this.selects.map((select) => findKnob(this.about, select.value));
  }

  moveTo(...parts) {
    this.turn(
      this.knobs().map((knob, axis) => {
        const { low, high } = range(this.about, knob, STRIP_REACH);
        return [knob.name, low + parts[axis] * (high - low)];
      }),
    );
  }

  /** Put the thumb where the code is. */
  show(code) {
    this.code = code;
    if (this.root.hidden) return;
    const knobs = this.knobs();
    const values = knobs.map((knob) => valueOf(code, knob));
    this.place = knobs.map((knob, axis) => {
      const { low, high } = range(this.about, knob, STRIP_REACH);
      return Math.max(0, Math.min(1, (values[axis] - low) / (high - low)));
    });
    this.thumb.style.left = `${100 * this.place[0]}%`;
    this.thumb.style.top = `${100 * (1 - this.place[1])}%`;
    const words = knobs.map((knob, axis) => `${knob.name} ${values[axis].toFixed(2)}`).join(", ");
    this.words.textContent = words;
    this.square.setAttribute("aria-label", `Pad: ${words}. Arrow keys move, with shift in larger steps.`);
  }

  /** Paint the ground: a square of pictures around the present code; of clips, the frame in the middle. */
  async draw(code) {
    const drawing = ++this.drawing;
    if (this.root.hidden) return;
    const [across, up] = this.knobs();
    const place = (knob, part) => {
      const { low, high } = range(this.about, knob, STRIP_REACH);
      return low + ((part + 0.5) / CELLS) * (high - low);
    };
    const codes = Array.from({ length: CELLS * CELLS }, (_, cell) => {
      const [line, column] = [Math.floor(cell / CELLS), cell % CELLS];
      return turned(turned(code, across, place(across, column)), up, place(up, CELLS - 1 - line));
    });
    const files = await api.decode(this.app.run, codes, `${PAGE}-pad`);
    if (files && drawing === this.drawing) await this.paintGround(files);
  }

  async paintGround(files) {
    const tiles = await Promise.all(files.map((file) => createImageBitmap(file)));
    const frames = this.about.kind === "clip" ? this.about.shape[0] : 1;
    const { height } = tiles[0];
    const width = (tiles[0].width + 1) / frames - 1; // frames stand one pixel apart
    const start = Math.floor(frames / 2) * (width + 1);
    fit(this.ground, CELLS * width, CELLS * height);
    const context = this.ground.getContext("2d");
    tiles.forEach((tile, cell) => {
      const corner = [(cell % CELLS) * width, Math.floor(cell / CELLS) * height];
      context.drawImage(tile, start, 0, width, height, ...corner, width, height);
      tile.close();
    });
  }
}
