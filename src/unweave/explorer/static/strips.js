/** Strips of pictures: each knob along its range, all else as it is. */

import * as api from "./api.js";
import { nameWidth, places, turned, valueOf, worded } from "./codes.js";
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
    Object.assign(this, { app, view, turn, pick, rows: [], about: null, drawing: 0 });
    this.root = el("div", { class: "strips" });
    this.settle = roving(this.root, ".strip-cell");
  }

  /** Strips of these knobs; where there are such already, only their values are set: nothing flickers. */
  build(about, knobs) {
    this.about = about;
    const planned = fitting(knobs.map((knob) => ({ knob, values: places(about, knob) })));
    const plan = (rows) => rows.map(({ knob, values }) => `${knob.name} ${values.length}`).join();
    if (plan(planned) !== plan(this.rows)) {
      this.rows = planned.map((row) => ({ ...row, cells: row.values.map((_, place) => this.cell(row.knob, place)) }));
      this.root.replaceChildren(...this.rows.map((row) => this.strip(row)));
      this.settle();
    }
    if (knobs.length) this.root.style.setProperty("--name", nameWidth(knobs));
    planned.forEach((row, line) => this.setValues(this.rows[line], row));
  }

  setValues(row, { knob, values }) {
    Object.assign(row, { knob, values });
    row.cells.forEach(({ node }, place) => {
      const label = `${knob.name} = ${worded(knob, values[place])}`;
      node.setAttribute("aria-label", label);
      node.title = label;
      node.dataset.value = values[place];
    });
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

  cell(knob, place) {
    const canvas = pictureCanvas({ "aria-hidden": "true" });
    const turn = () => this.turn(knob.name, Number(node.dataset.value));
    const node = button(canvas, turn, { class: "strip-cell", "data-knob": knob.name, "data-place": place });
    return { canvas, node };
  }

  /** All pictures around a code, in one request; an answer that a later one overtook is left out. */
  async draw(code) {
    const drawing = ++this.drawing;
    this.mark(code);
    const codes = this.rows.flatMap(({ knob, values }) => values.map((value) => turned(code, knob, value)));
    if (!codes.length || !this.about.can.decode) return;
    const canvases = this.rows.flatMap(({ cells }) => cells.map(({ canvas }) => canvas));
    const files = await api.decode(this.app.run, codes, `${PAGE}-${this.view}`);
    if (files && drawing === this.drawing) await Promise.all(files.map((file, number) => paint(canvases[number], file)));
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

/** As many rows as one request may ask for. */
function fitting(rows) {
  let cells = 0;
  return rows.filter(({ values }) => (cells += values.length) <= MOST);
}
