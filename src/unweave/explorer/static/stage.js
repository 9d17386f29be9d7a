/** The three pictures of one run: what it is given, what it makes of it, and what you make of it. */

import * as api from "./api.js";
import { loadInput } from "./inputs.js";
import { el } from "./parts.js";
import { Latest, PAGE, paint, pictureCanvas } from "./pictures.js";

/** From this ratio of width to height on, pictures stand below one another. */
const WIDE = 2.2;

export class Side {
  /** prefix: of the ids of its pictures */
  constructor(app, prefix) {
    Object.assign(this, { app, prefix, run: null, about: null, input: null, turn: 0, painting: null });
    this.given = this.figure("input", "Input");
    this.rebuilt = this.figure("reconstruction", "Reconstruction");
    this.yours = this.figure("edited", "Yours");
    this.root = el("div", { class: "stage" }, this.given.root, this.rebuilt.root, this.yours.root);
    this.latest = new Latest(({ run, code }) => this.decode(this.yours, run, code), app.fail);
  }

  figure(name, title) {
    const canvas = pictureCanvas({ id: `${this.prefix}${name}-picture`, role: "img", "aria-label": title });
    const words = el("span", { class: "figure-note" });
    const root = el("figure", { class: `figure ${name}` }, canvas, el("figcaption", {}, el("strong", {}, title), words));
    return { name, root, canvas, words };
  }

  /** Load the input; true when no later one has come between. */
  async load(run, about, source) {
    const turn = ++this.turn;
    const input = await loadInput(run, about, source);
    if (turn !== this.turn) return false;
    Object.assign(this, { run, about, input });
    this.given.root.hidden = !input.show;
    this.rebuilt.root.hidden = !input.show || !about.can.decode;
    this.yours.root.hidden = !about.can.decode;
    this.given.words.textContent = input.row === null ? "your image" : `#${input.row}`;
    this.painting = this.paintInput(run, input);
    this.painting.catch(() => null); // who waits for it hears of it
    return true;
  }

  /** What is given, and what the run makes of it. `painting` is this work: yours need not wait for it. */
  async paintInput(run, input) {
    await Promise.all([input.show?.(this.given.canvas), this.rebuilt.root.hidden || this.decode(this.rebuilt, run, input.code, () => input === this.input)]);
    this.root.classList.toggle("wide", this.given.canvas.width > WIDE * this.given.canvas.height);
  }

  /** Show a code as yours; of a moving slider only the latest position is asked for. */
  show(code, words = "") {
    this.yours.words.textContent = words;
    if (this.about.can.decode) this.latest.ask({ run: this.run, code });
  }

  /** isWanted: whether the picture is still to be shown when it comes; one that is remembered overtakes others. */
  async decode(figure, run, code, isWanted = () => true) {
    const files = await api.decode(run, [code], `${PAGE}-${this.prefix}${figure.name}`);
    if (files && isWanted()) await paint(figure.canvas, files[0]);
  }

  figures() {
    return [this.given, this.rebuilt, this.yours].filter((each) => !each.root.hidden);
  }
}
