/** Explore: look at an input, turn its code, see what becomes of it; two runs side by side. */

import * as api from "./api.js";
import {
  active,
  carriedCode,
  carriedEdits,
  edited,
  findKnob,
  ordered,
  places,
  range,
  readEdits,
  STRIP_REACH,
  valueOf,
  worded,
  writeEdits,
} from "./codes.js";
import { Gallery } from "./gallery.js";
import { currentSource, ownText } from "./inputs.js";
import { keepBar } from "./keep.js";
import { KnobPanel } from "./knobs.js";
import { Pad } from "./pad.js";
import { button, calmMotion, csvBlob, debounced, el, relabel, say } from "./parts.js";
import { asBlob, pictureCanvas } from "./pictures.js";
import { Side } from "./stage.js";
import { state } from "./state.js";
import { Strips } from "./strips.js";

const PERIOD = 4000;
const CATEGORY_TIME = 700;
/** Strips are made anew when the sliders have rested this long: moving pictures come first. */
const REST = 220;

export const create = (app) => new Explore(app);

class Explore {
  constructor(app) {
    Object.assign(this, { app, edits: new Map(), drawn: null, turn: 0, built: null, frame: 0 });
    this.gallery = new Gallery(app, {
      pick: (row) => this.choose({ row, own: null }),
      isChosen: (row) => row === this.side.input?.row,
      file: (file) => app.attempt(async () => this.choose({ own: await ownText(app.run, file), row: null })),
    });
    this.side = new Side(app, "");
    this.other = new Side(app, "other-");
    this.panel = new KnobPanel({
      turn: (name, value) => this.turnKnobs([[name, value]]),
      pick: (name) => this.pick(name),
      clear: (name) => this.clear(name),
    });
    this.pad = new Pad(app, { turn: (pairs) => this.turnKnobs(pairs) });
    this.strips = new Strips(app, {
      view: "strips",
      turn: (name, value) => this.turnKnobs([[name, value]]),
      pick: (name) => this.pick(name),
    });
    this.redrawStrips = debounced(() => this.drawStrips(), REST);
    this.lay();
  }

  lay() {
    this.facts = el("dl", { class: "facts", "aria-label": "Factors of the input" });
    this.otherTitle = el("h2", { class: "side-title" });
    this.otherNote = el("p", { class: "note", role: "status" });
    this.otherPart = el("div", { class: "other-side", hidden: true }, this.otherTitle, this.other.root, this.otherNote);
    this.ownTitle = el("h2", { class: "side-title", hidden: true });
    this.keep = keepBar(this.app, {
      name: () => `${this.app.run}-${this.side.input?.row ?? "own"}`,
      files: { png: () => this.png(), gif: () => this.gif(), csv: () => this.csv() },
      code: () => this.code(),
    });
    this.stripCard = el(
      "section",
      { class: "strip-card card", "aria-label": "Traversals" },
      el("h2", {}, "Traversals", el("span", { class: "hint" }, "each dimension from −2 to 2 deviations; choose a cell to go there")),
      this.strips.root,
    );
    this.grid = el(
      "div",
      { class: "explore" },
      this.gallery.root,
      el("section", { class: "stage-card card", "aria-label": "Pictures" }, this.ownTitle, this.side.root, this.otherPart, this.facts, this.toolbar()),
      el("aside", { class: "turning" }, this.panel.root, this.pad.root),
      this.stripCard,
    );
    this.root = el("div", { class: "view-body" }, this.grid, this.keep.root);
  }

  toolbar() {
    this.playButton = button("", () => this.togglePlay(), { id: "play", class: "main" });
    this.randomButton = button("", () => this.random(), { id: "random" });
    this.resetButton = button("", () => this.reset(), { id: "reset" });
    relabel(this.randomButton, "random", "Random");
    relabel(this.resetButton, "reset", "Reset");
    return el("div", { class: "toolbar" }, this.playButton, this.randomButton, this.resetButton);
  }

  // What the page tells this view -------------------------------------------------------------------------------

  show() {
    return this.refresh();
  }

  hide() {
    this.stop();
  }

  /** The weights are new: pictures that move show them by themselves. */
  changed() {
    return this.frame ? null : this.refresh();
  }

  // From the address to the pictures ------------------------------------------------------------------------------

  /** Load what the address names; an input that is not there is told of, and the one before stays. */
  async refresh() {
    try {
      await this.load();
    } catch (error) {
      if (error.fatal !== false || (state.whole("row") === null && !state.get("own"))) throw error;
      state.set({ row: this.side.run === this.app.run ? this.side.input.row : null, own: null });
      this.app.fail(error);
      await this.load();
    }
  }

  async load() {
    const { app } = this;
    const turn = ++this.turn;
    this.stop();
    this.build(app.about);
    this.pad.build(app.about);
    const source = await currentSource(app);
    if (turn !== this.turn) return; // a later one loads: this one must not take its place
    const [, drawn] = await Promise.all([this.side.load(app.run, app.about, source), this.draw(), this.gallery.show()]);
    if (turn !== this.turn) return;
    this.drawn = drawn;
    this.edits = readEdits(app.about, state.get("set"));
    for (const name of this.edits.keys()) this.panel.reveal(name);
    this.gallery.mark();
    this.showFacts();
    this.redraw();
    await this.side.latest.done; // what is looked at first is there first
    await Promise.all([this.side.painting, this.compare(source), this.drawStrips(), this.panel.draw(app.run)]);
  }

  build(about) {
    if (this.built === about) return;
    this.built = about;
    this.panel.build(about);
    this.strips.build(about, active(about));
    this.gallery.root.hidden = !about.can.encode;
    this.grid.classList.toggle("no-inputs", !about.can.encode);
    this.stripCard.hidden = !about.can.decode;
    this.randomButton.hidden = !about.can.sample;
    this.panel.reveal(this.picked());
    this.showPlay();
  }

  /** A code drawn from the prior with its seed, when the address asks for one. */
  async draw() {
    const seed = state.whole("seed");
    return seed === null ? null : { seed, code: await api.draw(this.app.run, seed) };
  }

  /** The pictures of the other run, under the same input. */
  async compare(source) {
    const { otherRun, otherAbout } = this.app;
    this.otherPart.hidden = this.ownTitle.hidden = !otherAbout;
    if (!otherAbout) return;
    this.ownTitle.textContent = this.app.run;
    this.otherTitle.textContent = otherRun;
    this.otherNote.textContent = this.unlike(source);
    this.other.root.hidden = Boolean(this.otherNote.textContent);
    if (this.other.root.hidden) return;
    try {
      await this.other.load(otherRun, otherAbout, source);
      this.redraw();
      await this.other.painting;
    } catch (error) {
      this.other.root.hidden = true;
      this.otherNote.textContent = error.message;
    }
  }

  /** Why the other run cannot be given this input, "" when it can: the same row number is not the same input. */
  unlike(source) {
    const { run, about, otherRun, otherAbout } = this.app;
    if (source.own || !otherAbout.can.encode) return "";
    if (!about.can.encode) return `${run} reads no inputs, so there is none that ${otherRun} could be given.`;
    if (about.data_id === otherAbout.data_id) return "";
    const names = about.data === otherAbout.data ? `both from ${about.data}, but not the same` : `${otherAbout.data}, not ${about.data}`;
    return `${otherRun} reads other data (${names}): its row ${source.row} is not this input. Two runs on the same data can be compared, or any two under an image of your own.`;
  }

  /** Everything that follows from the edits, at once. */
  redraw() {
    if (!this.isLoaded()) return;
    const code = this.present();
    const { about } = this.app;
    this.side.show(code, this.told());
    this.panel.show(code, this.side.input, (name) => this.isTurned(name), this.picked());
    this.pad.show(code);
    this.strips.mark(code);
    this.resetButton.disabled = !this.edits.size && !this.drawn;
    this.showPlay();
    this.showOther();
    this.keep.allow("gif", about.operations.includes("traverse") && this.side.input.row !== null);
    this.keep.refuse("gif", this.edits.size || this.drawn ? "The GIF moves the input's own code: choose Reset first" : "");
    this.keep.changed();
  }

  showOther() {
    const { about, otherAbout } = this.app;
    if (!otherAbout || this.other.about !== otherAbout || !this.other.input || this.other.root.hidden) return;
    const { code } = this.other.input;
    const start = this.drawn ? carriedCode(about, this.drawn.code, otherAbout, code) : code;
    this.other.show(edited(otherAbout, start, carriedEdits(about, this.edits, otherAbout)));
  }

  /** Whether the input on screen is one of the present run: while another is opened, its code is not yet there. */
  isLoaded() {
    return Boolean(this.side.input && this.app.about) && this.side.run === this.app.run;
  }

  async drawStrips() {
    if (this.frame || !this.isLoaded() || !this.app.about.can.decode) return;
    const code = this.present();
    await this.app.attempt(() => Promise.all([this.strips.draw(code), this.pad.draw(code)]));
  }

  present() {
    return edited(this.app.about, this.drawn?.code ?? this.side.input.code, this.edits);
  }

  told() {
    const words = [...this.edits].map(([name, value]) => `${name} ${worded(findKnob(this.app.about, name), value)}`);
    if (this.drawn) words.unshift("a draw");
    return words.length > 2 ? `${words.length} changes` : words.join(", ");
  }

  isTurned(name) {
    return this.edits.has(name) || this.drawn !== null;
  }

  showFacts() {
    const pairs = Object.entries(this.side.input.factors);
    this.facts.replaceChildren(...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  }

  // What the visitor does -----------------------------------------------------------------------------------------

  choose(patch) {
    state.set(patch);
    return this.app.attempt(() => this.refresh());
  }

  turnKnobs(pairs) {
    if (!this.isLoaded()) return;
    for (const [name, value] of pairs) this.edits.set(name, value);
    if (!pairs.some(([name]) => name === this.picked())) this.pick(pairs[0][0], false);
    this.kept();
  }

  clear(name) {
    const knob = findKnob(this.app.about, name);
    if (this.drawn) this.edits.set(name, valueOf(this.side.input.code, knob));
    else this.edits.delete(name);
    this.kept();
  }

  /** Show the edits and put them into the address. */
  kept() {
    state.set({ set: writeEdits(this.edits) });
    this.redraw();
    this.redrawStrips();
  }

  reset() {
    this.stop();
    this.edits.clear();
    this.drawn = null;
    state.set({ seed: null });
    this.kept();
    say("Back to the input's own code.");
  }

  random() {
    this.stop();
    state.set({ seed: Math.floor(Math.random() * 1e6), set: null });
    return this.app.attempt(async () => {
      const drawn = await this.draw();
      if (drawn?.seed !== state.whole("seed")) return; // it was chosen again meanwhile, or Reset was
      this.drawn = drawn;
      this.edits.clear();
      this.kept();
    });
  }

  picked() {
    return findKnob(this.app.about, state.get("pick"))?.name ?? ordered(this.app.about)[0].name;
  }

  pick(name, show = true) {
    if (name === this.picked()) return;
    this.stop();
    state.set({ pick: name });
    if (show) this.redraw();
  }

  // Play ----------------------------------------------------------------------------------------------------------

  togglePlay() {
    if (this.frame) this.stop();
    else this.play();
  }

  /** There and back, from where the knob stands; categories one after the other. */
  play() {
    if (!this.isLoaded()) return;
    const { about } = this.app;
    const knob = findKnob(about, this.picked());
    this.panel.reveal(knob.name);
    const at = knob.kind === "real" && !calmMotion() ? this.swing(knob) : this.inSteps(knob);
    const start = performance.now();
    const tick = (now) => {
      const value = at(now - start);
      if (this.edits.get(knob.name) !== value) this.turnKnobs([[knob.name, value]]);
      this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
    this.showPlay();
  }

  swing(knob) {
    const { low, high } = range(this.app.about, knob, STRIP_REACH);
    const part = Math.max(-1, Math.min(1, (2 * (valueOf(this.present(), knob) - low)) / (high - low) - 1));
    const begin = Math.asin(part);
    return (time) => low + ((high - low) * (1 + Math.sin(begin + (2 * Math.PI * time) / PERIOD))) / 2;
  }

  inSteps(knob) {
    const values = places(this.app.about, knob);
    const first = knob.kind === "simplex" ? valueOf(this.present(), knob) : 0;
    return (time) => values[(first + Math.floor(time / CATEGORY_TIME)) % values.length];
  }

  stop() {
    if (!this.frame) return;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.showPlay();
    this.redrawStrips();
  }

  showPlay() {
    const name = this.picked();
    relabel(this.playButton, this.frame ? "stop" : "play", this.frame ? `Stop ${name}` : `Play ${name}`);
    this.playButton.setAttribute("aria-pressed", String(Boolean(this.frame)));
    this.playButton.disabled = !this.app.about.can.decode;
  }

  // What the visitor keeps ------------------------------------------------------------------------------------------

  /** The operation that shows the same, null when there is none: an own image has no row number. */
  operation() {
    const row = this.side.input?.row ?? null;
    if (row === null) return null;
    const set = [...this.edits].map(([name, value]) => `${name}=${Number(value.toFixed(4))}`).join(",");
    const params = { ...(set && { set }), ...(this.drawn && { seed: this.drawn.seed }) };
    const name = Object.keys(params).length ? "edit" : "reconstruct";
    return this.app.about.operations.includes(name) ? { name, row, params } : null;
  }

  async png() {
    const found = this.operation();
    if (found?.name !== "edit" || this.app.otherAbout) return this.drawing();
    const query = new URLSearchParams({ rows: found.row, ...found.params });
    return api.blob(api.file(this.app.run, found.name, "png", query));
  }

  /** The pictures as they stand on the page, enlarged without smoothing. */
  drawing() {
    const sides = [this.side, ...(this.otherPart.hidden || this.other.root.hidden ? [] : [this.other])];
    const { width, height } = this.side.yours.canvas;
    const size = Math.max(1, Math.round(256 / Math.max(width, height)));
    const canvas = pictureCanvas({ width: 3 * (width * size + 8) - 8, height: sides.length * (height * size + 8) - 8 });
    const context = canvas.getContext("2d");
    context.fillStyle = "white";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = false;
    sides.forEach((side, line) =>
      side.figures().forEach((figure, column) => {
        const corner = [column * (width * size + 8), line * (height * size + 8)];
        context.drawImage(figure.canvas, ...corner, width * size, height * size);
      }),
    );
    return asBlob(canvas);
  }

  gif() {
    const query = new URLSearchParams({ rows: this.side.input.row, dims: this.picked() });
    return api.blob(api.file(this.app.run, "traverse", "gif", query));
  }

  csv() {
    const code = this.present();
    const rows = this.app.about.columns.map((name, column) => [name, this.side.input.code[column], code[column]]);
    return csvBlob([["dimension", "input", "yours"], ...rows]);
  }

  /** Why no code makes these pictures: a line that makes others would be worse than none. */
  noCode() {
    const { can } = this.app.about;
    const lack = can.encode ? "this system makes no pictures" : "this system reads no inputs";
    const why = can.encode && this.side.input.row === null ? "your image is on this page only: it is not kept" : lack;
    return `No command makes the same pictures, since ${why}. PNG keeps them, CSV their codes, and the link this view.`;
  }

  async code() {
    const found = this.operation();
    if (!found) return this.noCode();
    const { python, command } = await api.operate(this.app.run, found.name, [found.row], found.params);
    return [
      ["Python", python],
      ["Command line", command],
    ];
  }
}
