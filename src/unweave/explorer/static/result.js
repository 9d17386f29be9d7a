/** The result of an operation: a grid of pictures with their names, cut from one sheet; plays when it moves. */

import * as api from "./api.js";
import { button, calmMotion, el, relabel } from "./parts.js";
import { pictureCanvas } from "./pictures.js";

const FRAME_TIME = 130;
const [LEAST, MOST] = [44, 104];

export class Result {
  constructor(app) {
    Object.assign(this, { app, turn: 0, shown: null, operation: null, timer: 0, place: 0 });
    this.title = el("h2", { class: "result-title" });
    this.playButton = button("", () => this.togglePlay(), { class: "result-play", hidden: true });
    this.note = el("p", { class: "note", role: "status" });
    this.scroll = el("div", { class: "result-scroll", tabindex: 0, role: "region", "aria-label": "Pictures" });
    this.root = el(
      "section",
      { class: "result-pane card", "aria-label": "Result" },
      el("div", { class: "result-head" }, this.title, this.playButton),
      this.note,
      this.scroll,
    );
  }

  /** Run an operation and show it; what goes wrong is said in its place. The answer, or null. */
  async run(operation, rows, params) {
    const turn = ++this.turn;
    const { run } = this.app;
    this.root.classList.add("busy");
    try {
      const shown = await api.operate(run, operation, rows, params);
      const sheet = await createImageBitmap(await api.blob(api.file(run, operation, "sheet", shown.query)));
      if (turn !== this.turn) return null;
      this.sheet?.close();
      Object.assign(this, { shown, operation, sheet });
      this.draw();
      return shown;
    } catch (error) {
      if (!(error instanceof api.Refusal)) throw error;
      if (turn === this.turn) this.refuse(error.message);
      if (error.fatal) this.app.fail(error);
      return null;
    } finally {
      if (turn === this.turn) this.root.classList.remove("busy");
    }
  }

  refuse(sentence) {
    this.stop();
    this.shown = null;
    this.title.textContent = "";
    this.playButton.hidden = true;
    this.scroll.replaceChildren();
    this.note.textContent = sentence;
  }

  draw() {
    this.stop();
    const { shown } = this;
    this.note.textContent = "";
    this.title.textContent = shown.title;
    this.playButton.hidden = !shown.plays;
    this.cells = [];
    this.players = [];
    const table = el("table", { class: "result", "data-testid": "result" }, this.head(), el("tbody", {}, shown.rows.map((_, row) => this.line(row))));
    table.style.setProperty("--cell", `${this.cellSize()}px`);
    this.scroll.replaceChildren(table);
    this.showPlay();
    if (shown.frames > 1 && !calmMotion()) this.play();
  }

  /** Columns that are a movement get a cell at the left that plays it. */
  get moves() {
    return this.shown.plays && this.shown.frames === 1;
  }

  cellSize() {
    const names = this.shown.rows.some(Boolean) ? 130 : 24;
    const free = (this.scroll.clientWidth || 900) - names;
    const columns = this.shown.columns.length + (this.moves ? 1 : 0);
    return Math.round(Math.max(LEAST, Math.min(MOST, free / columns - 6)));
  }

  head() {
    const cells = this.shown.columns.map((name, column) => el("th", { scope: "col", "data-column": column }, name));
    return el("thead", {}, el("tr", {}, el("td"), this.moves ? el("th", { scope: "col", class: "player-name" }, "plays") : null, cells));
  }

  line(row) {
    const { shown } = this;
    const cells = shown.columns.map((_, column) => el("td", { "data-column": column }, shown.full[row][column] ? this.cell(row, column) : null));
    return el("tr", {}, el("th", { scope: "row" }, shown.rows[row]), this.moves ? el("td", {}, this.player(row)) : null, cells);
  }

  cell(row, column) {
    const { shown } = this;
    const words = [shown.rows[row], shown.columns[column]].filter(Boolean).join(", ");
    const canvas = pictureCanvas({ role: "img", "aria-label": words || `row ${row + 1}, column ${column + 1}`, "data-row": row, "data-column": column });
    this.cells.push({ canvas, row, column });
    this.cut(canvas, row, column, 0);
    return canvas;
  }

  player(row) {
    const canvas = pictureCanvas({ class: "picture player", role: "img", "aria-label": `${this.shown.rows[row]} in motion` });
    const columns = this.shown.columns.map((_, column) => column).filter((column) => this.shown.full[row][column]);
    this.players.push({ canvas, row, columns });
    this.cut(canvas, row, columns[Math.floor(columns.length / 2)] ?? 0, 0);
    return canvas;
  }

  cut(canvas, row, column, frame) {
    const { rows, columns, frames } = this.shown;
    const [width, height] = [this.sheet.width / columns.length, this.sheet.height / (rows.length * frames)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const corner = [column * width, (frame * rows.length + row) * height];
    canvas.getContext("2d").drawImage(this.sheet, ...corner, width, height, 0, 0, width, height);
  }

  /** Show only the first columns: evidence that comes in one by one. */
  reveal(columns) {
    for (const node of this.scroll.querySelectorAll("[data-column]")) {
      if (node.tagName !== "CANVAS") node.classList.toggle("veiled", Number(node.dataset.column) >= columns);
    }
  }

  // Play --------------------------------------------------------------------------------------------------------

  togglePlay() {
    if (this.timer) this.stop();
    else this.play();
  }

  play() {
    this.timer = setInterval(() => this.step(), FRAME_TIME);
    this.showPlay();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.showPlay();
  }

  step() {
    if (!this.root.isConnected || !this.root.offsetParent) return;
    this.place += 1;
    const { frames } = this.shown;
    if (frames > 1) for (const { canvas, row, column } of this.cells) this.cut(canvas, row, column, this.place % frames);
    for (const { canvas, row, columns } of this.players) {
      if (columns.length) this.cut(canvas, row, columns[this.turning(columns.length)], 0);
    }
  }

  /** There and back, or around when the movement is one in time. */
  turning(length) {
    if (length < 2 || this.shown.moves === "forward") return this.place % length;
    const place = this.place % (2 * length - 2);
    return place < length ? place : 2 * length - 2 - place;
  }

  showPlay() {
    relabel(this.playButton, this.timer ? "stop" : "play", this.timer ? "Stop" : "Play");
    this.playButton.setAttribute("aria-pressed", String(Boolean(this.timer)));
  }

  // What the visitor keeps ----------------------------------------------------------------------------------------

  file(kind) {
    return this.shown ? api.blob(api.file(this.app.run, this.operation, kind, this.shown.query)) : null;
  }

  async code() {
    if (!this.shown) return [];
    return [
      ["Python", this.shown.python],
      ["Command line", this.shown.command],
    ];
  }
}
