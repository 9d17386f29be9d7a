/** Strips of pictures: each knob along its range, all else as it is. */

import * as api from "./api.js";
import { places, told, turned, valueOf } from "./codes.js";
import { button, el, roving } from "./parts.js";
import { PAGE, paint, pictureCanvas } from "./pictures.js";

/** The server makes at most this many pictures for one request. */
const MOST = 512;

export class Strips {
  /**
   * view: tells these strips from others of the page
   * turn: told of a knob's name and the value of the cell that was chosen
   * pick: told of the knob whose name was chosen
   */
  constructor(app, { view, turn, pick }) {
    Object.assign(this, { app, view, turn, pick, rows: [], about: null });
    this.root = el("div", { class: "strips" });
    this.settle = roving(this.root, ".strip-cell");
  }

  build(about, knobs) {
    this.about = about;
    this.rows = [];
    let cells = 0;
    for (const knob of knobs) {
      const values = places(about, knob);
      cells += values.length;
      if (cells > MOST) break;
      this.rows.push({ knob, values, cells: values.map((value, place) => this.cell(knob, value, place)) });
    }
    this.root.replaceChildren(...this.rows.map((row) => this.strip(row)));
    this.settle();
  }

  strip({ knob, cells }) {
    const name = this.pick
      ? button(knob.name, () => this.pick(knob.name), { class: "strip-name" })
      : el("span", { class: "strip-name" }, knob.name);
    return el(
      "div",
      { class: "strip", role: "group", "aria-label": `Traversal of ${knob.name}`, "data-strip": knob.name },
      name,
      el("div", { class: "strip-cells" }, cells.map(({ node }) => node)),
    );
  }

  cell(knob, value, place) {
    const canvas = pictureCanvas({ "aria-hidden": "true" });
    const label = `${knob.name} = ${told(value)}`;
    const node = button(canvas, () => this.turn(knob.name, value), {
      class: "strip-cell",
      "data-knob": knob.name,
      "data-place": place,
      "aria-label": label,
      title: label,
    });
    return { canvas, node };
  }

  /** All pictures around a code, in one request. */
  async draw(code) {
    this.mark(code);
    const codes = this.rows.flatMap(({ knob, values }) => values.map((value) => turned(code, knob, value)));
    if (!codes.length || !this.about.can.decode) return;
    const files = await api.decode(this.app.run, codes, `${PAGE}-${this.view}`);
    const canvases = this.rows.flatMap(({ cells }) => cells.map(({ canvas }) => canvas));
    if (files) await Promise.all(files.map((file, number) => paint(canvases[number], file)));
  }

  /** Mark the cell of each strip that is nearest the code. */
  mark(code) {
    for (const { knob, values, cells } of this.rows) {
      const own = valueOf(code, knob);
      const distances = values.map((value) => Math.abs(value - own));
      const near = distances.indexOf(Math.min(...distances));
      cells.forEach(({ node }, place) => node.classList.toggle("near", place === near));
    }
  }
}
