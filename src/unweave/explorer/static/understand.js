/** Understand: what each dimension knows, how well the run scores, and where the data lie in its codes. */

import * as api from "./api.js";
import { active, categories, findKnob, isUsed, ordered, valueOf } from "./codes.js";
import { HeatMap } from "./heatmap.js";
import { currentSource, loadInput } from "./inputs.js";
import { fileButton, keepBar, quoted, shellWord } from "./keep.js";
import { count, csvBlob, el, fillSelect, labelled, segmented } from "./parts.js";
import { colouring, short } from "./plots.js";
import { Scatter } from "./scatter.js";
import { scoreRows, scoreTable } from "./scores.js";
import { state } from "./state.js";
import { Strips } from "./strips.js";

const FEW = 12;

export const create = (app) => new Understand(app);

class Understand {
  constructor(app) {
    Object.assign(this, { app, loaded: null, data: null, turn: 0 });
    const open = (row) => app.go("explore", { row, own: null, set: null, seed: null });
    const words = (point) => this.wordsOf(point);
    this.heat = new HeatMap({ pick: (knob, factor) => this.choose({ knob, factor }) });
    this.cloud = new Scatter(app, { open, words, testid: "scatter", height: 420 });
    this.detail = new Scatter(app, { open, words, testid: "detail-scatter", height: 260 });
    this.strips = new Strips(app, { view: "detail", turn: (name, value) => app.go("explore", { pick: name, set: `${name}:${value.toFixed(4)}` }) });
    this.lay();
  }

  lay() {
    this.kinds = segmented("Map", [["shares", "Information"], ["importance", "DCI importance"]], (map) => this.choose({ map }));
    this.all = el("input", { type: "checkbox", id: "all-dimensions", onchange: () => this.choose({ all: this.all.checked ? "1" : null }) });
    this.allWords = el("span");
    this.heatNote = el("p", { class: "note" });
    this.detailTitle = el("h2", { "aria-live": "polite" });
    this.scoreBody = el("div");
    this.selects = Object.fromEntries(["sx", "sy", "colour"].map((key) => [key, el("select", { id: `scatter-${key}`, onchange: (event) => this.choose({ [key]: event.target.value }) })]));
    this.keep = keepBar(this.app, { name: () => this.app.run, code: async () => this.code() });
    const allBox = el("label", { class: "check" }, this.all, this.allWords);
    const grid = el(
      "div",
      { class: "understand" },
      this.card("map-card", "What each dimension knows", "knows", { png: () => this.heat.png(this.heatTitle()), csv: () => csvBlob(this.heat.csv()) }, el("div", { class: "inline" }, this.kinds.root, allBox), this.heatNote, this.heat.root),
      el("section", { class: "card detail-card", "aria-label": "The chosen dimension" }, this.detailTitle, this.strips.root, this.detail.root),
      this.card("cloud-card", "Codes of the data", "codes", { png: () => this.cloud.png(), csv: () => this.cloudCsv() }, this.cloudFields(), this.cloud.root),
      this.card("score-card", "Scores", "scores", { csv: () => csvBlob(scoreRows(this.data.scores)) }, this.scoreBody),
    );
    this.root = el("div", { class: "view-body" }, grid, this.keep.root);
  }

  card(kind, title, name, files, ...children) {
    const buttons = Object.entries(files).map(([ending, make]) => fileButton(this.app, ending, () => `${this.app.run}-${name}`, make));
    return el("section", { class: `card ${kind}`, "aria-label": title }, el("div", { class: "card-head" }, el("h2", {}, title), el("span", { class: "card-files" }, buttons)), children);
  }

  cloudFields() {
    return el("div", { class: "inline" }, labelled("across", this.selects.sx), labelled("up", this.selects.sy), labelled("colour", this.selects.colour));
  }

  show() {
    return this.refresh();
  }

  changed() {
    return this.refresh();
  }

  async refresh() {
    const { about, run } = this.app;
    const turn = ++this.turn;
    if (this.loaded !== about) {
      const [knows, points, scores] = await Promise.all([api.knows(run), api.points(run), api.scores(run)]);
      if (turn !== this.turn) return;
      Object.assign(this, { loaded: about, data: { knows, points, scores } });
      this.build();
    }
    await this.redraw();
  }

  build() {
    const { about } = this.app;
    const { knows, points, scores } = this.data;
    const unused = about.knobs.filter((knob) => !isUsed(about, knob)).length;
    this.allWords.textContent = `with ${count(unused, "unused dimension")}`;
    this.all.closest("label").hidden = !unused;
    this.kinds.allow("importance", Boolean(knows.importance));
    this.scoreBody.replaceChildren(scoreTable(scores));
    const columns = ordered(about).flatMap((knob) => knob.columns.map((column) => points.columns[column]));
    const factors = Object.keys(points.factors);
    this.initial = { sx: columns[0], sy: columns[1] ?? columns[0], colour: factors[0] ?? "-" };
    for (const key of ["sx", "sy"]) fillSelect(this.selects[key], columns.map((name) => [name, name]));
    fillSelect(this.selects.colour, [...factors.map((name) => [name, name]), ["-", "nothing"]]);
  }

  choose(patch) {
    state.set(patch);
    return this.app.attempt(() => this.redraw());
  }

  // What is shown ---------------------------------------------------------------------------------------------------

  async redraw() {
    const { about } = this.app;
    const { knows } = this.data;
    const kind = state.get("map") === "importance" && knows.importance ? "importance" : "shares";
    const { knob, factor } = this.chosen();
    const all = state.get("all") === "1" || !about.knobs.some((each) => isUsed(about, each));
    this.kinds.show(kind);
    this.all.checked = all;
    this.heatNote.textContent = this.heatTitle(kind);
    this.keepFocus(() => this.heat.show(about, knows, { kind, all, knob: knob.name, factor }));
    this.showCloud();
    await this.showDetail(knob, factor);
  }

  /** A map that is drawn anew keeps the keyboard where it was. */
  keepFocus(draw) {
    const { knob, factor } = document.activeElement?.dataset ?? {};
    const inside = this.heat.root.contains(document.activeElement);
    draw();
    if (inside) [...this.heat.root.querySelectorAll(".heat")].find((node) => node.dataset.knob === knob && node.dataset.factor === factor)?.focus();
  }

  heatTitle(kind = state.get("map") || "shares") {
    if (!this.data.knows.factors.length) return "The factors of these data are not known.";
    return kind === "importance"
      ? `Importance of each dimension for predicting each factor (${this.data.knows.importance.score}); area is importance`
      : "Share of each factor's entropy that each dimension knows, without what chance would show";
  }

  /** The cell of the address, else the strongest of the map. */
  chosen() {
    const { about } = this.app;
    const { knows } = this.data;
    const knob = findKnob(about, state.get("knob"));
    const factor = knows.factors.includes(state.get("factor")) ? state.get("factor") : null;
    if (knob && (factor || !knows.factors.length)) return { knob, factor };
    let best = { knob: active(about)[0], factor: knows.factors[0] ?? null, value: -1 };
    knows.shares.forEach((line, place) =>
      line.forEach((value, column) => {
        if (value > best.value) best = { knob: findKnob(about, knows.knobs[place]), factor: knows.factors[column], value };
      }),
    );
    return best;
  }

  async showDetail(knob, factor) {
    const { about } = this.app;
    this.detailTitle.textContent = factor ? `${knob.name} and ${factor}` : knob.name;
    this.strips.build(about, about.can.decode ? [knob] : []);
    this.detail.root.hidden = !factor;
    if (factor) this.detail.show(this.against(knob, factor));
    const { code } = await loadInput(this.app.run, about, await currentSource(this.app));
    await this.strips.draw(code);
  }

  /** A dimension's codes over a factor; few values are spread a little, so that points do not cover one another. */
  against(knob, factor) {
    const { points } = this.data;
    const about = this.app.about.factors.find(({ name }) => name === factor);
    const values = points.factors[factor];
    const found = [...new Set(values.filter((value) => value !== null))].sort((a, b) => a - b);
    const isFew = found.length <= FEW;
    const gap = found.length > 1 ? Math.min(...found.slice(1).map((value, place) => value - found[place])) : 1;
    const simplex = knob.kind === "simplex";
    const level = (code, point) => valueOf(code, knob) + (simplex ? spread(7 * point + 3) * 0.5 : 0);
    const legend = colouring(about, values);
    return {
      xs: values.map((value, point) => (value === null ? NaN : value + (isFew ? gap * 0.5 * spread(point) : 0))),
      ys: points.codes.map(level),
      xTitle: factor,
      yTitle: knob.name,
      xTicks: isFew ? found.map((value) => [value, legend.name(value)]) : null,
      yTicks: simplex ? Array.from({ length: categories(knob) }, (_, each) => [each, String(each)]) : null,
      rows: points.rows,
      colours: isFew ? values.map(legend.of) : null,
    };
  }

  showCloud() {
    const { points } = this.data;
    for (const [key, select] of Object.entries(this.selects)) {
      const found = [...select.options].find(({ value }) => value === state.get(key));
      select.value = found ? found.value : this.initial[key];
    }
    const [x, y] = [this.selects.sx, this.selects.sy].map((select) => points.columns.indexOf(select.value));
    const factor = this.app.about.factors.find(({ name }) => name === this.selects.colour.value);
    const values = factor ? points.factors[factor.name] : null;
    const legend = values ? colouring(factor, values) : null;
    this.cloud.show({
      xs: points.codes.map((code) => code[x]),
      ys: points.codes.map((code) => code[y]),
      xTitle: points.columns[x],
      yTitle: points.columns[y],
      rows: points.rows,
      colours: values ? values.map(legend.of) : null,
      legend,
    });
  }

  wordsOf(point) {
    const { rows, factors } = this.data.points;
    const name = (factor, value) => this.app.about.factors.find((each) => each.name === factor)?.labels?.[value] ?? short(value);
    const known = Object.entries(factors).map(([factor, values]) => `${factor} ${values[point] === null ? "unknown" : name(factor, values[point])}`);
    return [`#${rows[point]}`, ...known].join(", ");
  }

  // What the visitor keeps --------------------------------------------------------------------------------------------

  cloudCsv() {
    const { points } = this.data;
    const factors = Object.keys(points.factors);
    const lines = points.codes.map((code, point) => [points.rows[point] ?? "", ...code, ...factors.map((name) => points.factors[name][point] ?? "")]);
    return csvBlob([["row", ...points.columns, ...factors], ...lines]);
  }

  code() {
    const { path } = this.app.about;
    return [
      ["Python", `unweave.Run.open(${quoted(path)}).scores()`],
      ["Command line", `unweave evaluate ${shellWord(path)}`],
      ["Report", `unweave report ${shellWord(path)}`],
    ];
  }
}

/** A number from -0.5 to 0.5 that is always the same for a point, so that points do not jump. */
function spread(point) {
  const wave = Math.sin(point * 12.9898) * 43758.5453;
  return wave - Math.floor(wave) - 0.5;
}
