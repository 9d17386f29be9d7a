/** Thumbnails of inputs to choose from. */

import * as api from "./api.js";
import { button, el, roving } from "./parts.js";

const SOME = 24;
const loaded = new Map();

/** At least `least` rows of a run, unless it has fewer: [{row, factors}, ...]. */
export async function galleryRows(run, least = SOME) {
  const known = loaded.get(run) ?? { list: [], all: false };
  loaded.set(run, known);
  while (known.list.length < least && !known.all) {
    const start = known.list.length;
    const found = await api.rows(run, start, SOME);
    if (known.list.length !== start) continue; // another call has brought these rows meanwhile
    const seen = new Set(known.list.map(({ row }) => row));
    const fresh = found.filter(({ row }) => !seen.has(row) && seen.add(row));
    known.list.push(...fresh);
    known.all = fresh.length < found.length; // the server begins again at the end
  }
  return known.list;
}

const wordsOf = (factors) => Object.entries(factors).map(([name, value]) => `${name} ${value}`).join(", ");

export class Gallery {
  /**
   * pick:     told of a row that was chosen
   * isChosen: whether a row is marked
   * file:     told of an image of the visitor's own; without it none is taken
   */
  constructor(app, { pick, isChosen, file = null }) {
    Object.assign(this, { app, pick, isChosen, file, shown: SOME, run: null });
    this.grid = el("div", { class: "thumbs", role: "group", "aria-label": "Inputs" });
    this.settle = roving(this.grid, "button");
    this.more = button("More", () => this.showMore(), { class: "quiet", "data-testid": "more-rows" });
    this.root = el(
      "section",
      { class: "gallery card", "aria-label": "Inputs" },
      el("div", { class: "gallery-head" }, el("h2", {}, "Inputs"), this.rowField()),
      this.grid,
      el("div", { class: "gallery-foot" }, this.more),
      (this.drop = file ? this.dropZone() : null),
    );
  }

  rowField() {
    const field = el("input", { type: "number", min: 0, step: 1, placeholder: "row", "aria-label": "Row number", "data-testid": "row-number" });
    const go = (event) => {
      event.preventDefault();
      if (field.value !== "" && field.reportValidity()) this.pick(Number(field.value));
    };
    return el("form", { class: "row-form", onsubmit: go }, field, el("button", { class: "quiet" }, "Go"));
  }

  dropZone() {
    const chooser = el("input", { type: "file", accept: "image/*", class: "unseen", "data-testid": "own-image" });
    const zone = el(
      "label",
      { class: "drop", "data-testid": "drop-zone" },
      chooser,
      el("strong", {}, "Your own image"),
      el("span", {}, "drop it here, or choose a file"),
    );
    const take = (files) => files.length && this.file(files[0]);
    chooser.addEventListener("change", () => {
      take(chooser.files);
      chooser.value = "";
    });
    this.takeDrops(zone, take);
    return zone;
  }

  /** A file may be dropped anywhere on the page while the zone is on screen: few hit a small one. */
  takeDrops(zone, take) {
    const isOpen = () => zone.offsetParent !== null && !zone.closest("[inert]");
    const mark = (inside) => zone.classList.toggle("over", inside);
    document.addEventListener("dragover", (event) => mark(isOpen() && event.dataTransfer.types.includes("Files")));
    document.addEventListener("dragleave", (event) => event.relatedTarget || mark(false));
    document.addEventListener("drop", (event) => {
      mark(false);
      if (isOpen()) take(event.dataTransfer.files);
    });
  }

  async showMore() {
    this.shown += SOME;
    await this.app.attempt(() => this.show());
  }

  /** The rows of the present run. */
  async show() {
    const run = this.app.run;
    if (run !== this.run) {
      this.shown = SOME;
      this.grid.replaceChildren();
    }
    this.run = run;
    if (this.drop) this.drop.hidden = this.app.about.kind !== "image";
    const { shown } = this;
    const rows = await galleryRows(run, shown);
    if (run !== this.app.run) return;
    for (const each of rows.slice(this.grid.children.length, shown)) this.grid.append(this.thumb(each));
    this.more.hidden = rows.length < shown;
    this.settle();
    this.mark();
  }

  thumb({ row, factors }) {
    const picture = el("img", { src: api.rowPicture(this.app.run, row), alt: "", loading: "lazy", fetchpriority: "low", class: "picture" });
    const words = wordsOf(factors);
    const label = `Row ${row}${words ? `: ${words}` : ""}`;
    return button(picture, () => this.pick(row), { class: "thumb", "data-row": row, title: label, "aria-label": label, "aria-pressed": "false" });
  }

  mark() {
    for (const node of this.grid.children) node.setAttribute("aria-pressed", String(this.isChosen(Number(node.dataset.row))));
  }
}
