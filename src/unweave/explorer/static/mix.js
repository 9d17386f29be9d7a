/** Swap & mix: parts of some inputs given to others, the way between them, and what a group says together. */

import { rowPicture } from "./api.js";
import { isUsed, ordered } from "./codes.js";
import { Gallery, galleryRows } from "./gallery.js";
import { keepBar } from "./keep.js";
import { button, count, debounced, el, fillSelect, icon, labelled, relabel, say, segmented } from "./parts.js";
import { Result } from "./result.js";
import { state } from "./state.js";

const [FEWEST, MOST] = [2, 8];
const AT_FIRST = 4;
const MEMBER_TIME = 900;
const MODES = [
  ["swap", "Swap"],
  ["interpolate", "Interpolate"],
  ["accumulate", "Accumulate"],
];
const QUESTIONS = {
  swap: "Take from the left",
  interpolate: "Move (none: everything)",
  accumulate: "Accumulate (none: what belongs to the group)",
};

export const create = (app) => new Mix(app);

class Mix {
  constructor(app) {
    Object.assign(this, { app, rows: [], built: null, members: 0, timer: 0 });
    this.gallery = new Gallery(app, { pick: (row) => this.toggleRow(row), isChosen: (row) => !this.isAutomatic() && this.rows.includes(row) });
    this.modes = segmented("Operation", MODES, (mode) => this.choose({ mode }));
    this.chips = el("div", { class: "chips", role: "list", "aria-label": "Chosen inputs" });
    this.partsQuestion = el("legend", {});
    this.parts = el("div", { class: "chips" });
    this.result = new Result(app);
    this.keep = keepBar(app, {
      name: () => `${app.run}-${this.mode()}`,
      files: { png: () => this.result.file("png"), gif: () => this.result.file("gif"), csv: () => this.result.file("csv") },
      code: () => this.result.code(),
    });
    this.runSoon = debounced(() => this.app.about && this.app.attempt(() => this.run()), 120);
    this.lay();
  }

  lay() {
    const grid = el(
      "div",
      { class: "mix" },
      this.gallery.root,
      el(
        "section",
        { class: "card mix-choices", "aria-label": "Choices" },
        el("div", { class: "mix-head" }, this.modes.root, this.interpolateFields(), this.memberFields()),
        this.chips,
        el("fieldset", { class: "parts" }, this.partsQuestion, this.parts),
      ),
      this.result.root,
    );
    this.root = el("div", { class: "view-body" }, grid, this.keep.root);
  }

  interpolateFields() {
    this.steps = el("input", { type: "number", min: 2, max: 32, value: 9, id: "mix-steps", onchange: () => this.choose({ steps: this.steps.value }) });
    this.across = el("select", { id: "mix-across", onchange: () => this.choose({ across: this.across.value }) });
    this.forLines = el("div", { class: "inline" }, labelled("steps", this.steps), labelled("downwards", this.across));
    return this.forLines;
  }

  memberFields() {
    this.fewer = button(icon("minus"), () => this.showMembers(this.members - 1), { "aria-label": "One member less" });
    this.more = button([icon("plus"), "Add a member"], () => this.showMembers(this.members + 1), { id: "add-member" });
    this.memberWords = el("output", { "aria-live": "polite", id: "members" });
    this.playMembers = button("", () => this.togglePlay(), { id: "play-members" });
    this.ownRows = el("input", { type: "checkbox", id: "own-members", onchange: () => this.choose({ members: this.ownRows.checked ? "chosen" : null }) });
    this.forGroups = el(
      "div",
      { class: "inline" },
      this.fewer,
      this.memberWords,
      this.more,
      this.playMembers,
      el("label", { class: "check" }, this.ownRows, "of the chosen inputs"),
    );
    return this.forGroups;
  }

  show() {
    return this.refresh();
  }

  changed() {
    return this.refresh();
  }

  hide() {
    this.stop();
    this.result.stop();
  }

  async refresh() {
    const { about } = this.app;
    this.build(about);
    const some = await galleryRows(this.app.run);
    const kept = state.get("rows").split(",").filter((text) => /^\d+$/.test(text)).map(Number);
    this.rows = kept.length ? kept.slice(0, MOST) : some.slice(0, AT_FIRST).map(({ row }) => row);
    await this.gallery.show();
    this.showChoices();
    await this.run();
  }

  build(about) {
    if (this.built === about) return;
    this.built = about;
    const grouped = Boolean(about.group) || about.blocks.some(({ scope }) => scope === "group");
    this.can = (mode) => about.operations.includes(mode) && (mode !== "accumulate" || grouped);
    for (const [mode] of MODES) this.modes.allow(mode, this.can(mode));
    const knobs = ordered(about).filter((knob) => !about.blocks.some(({ name }) => name === knob.name));
    const [used, unused] = [knobs.filter((knob) => isUsed(about, knob)), knobs.filter((knob) => !isUsed(about, knob))];
    this.parts.replaceChildren(
      ...about.blocks.map(({ name }) => this.partChip(name, true)),
      ...used.map(({ name }) => this.partChip(name)),
      unused.length ? el("details", { class: "unused" }, el("summary", {}, count(unused.length, "unused dimension")), el("div", { class: "chips" }, unused.map(({ name }) => this.partChip(name)))) : "",
    );
    const names = [...about.blocks, ...used].map(({ name }) => [name, name]);
    fillSelect(this.across, [["", "nothing"], ...names]);
  }

  partChip(name, isBlock = false) {
    const box = el("input", { type: "checkbox", value: name, onchange: () => this.chooseParts() });
    return el("label", { class: isBlock ? "chip part block" : "chip part" }, box, name);
  }

  mode() {
    const asked = state.get("mode");
    return this.can(asked) ? asked : (MODES.find(([mode]) => this.can(mode)) ?? MODES[0])[0];
  }

  /** Whether the members are those of a group of the data, not the chosen inputs. */
  isAutomatic() {
    return this.mode() === "accumulate" && state.get("members") !== "chosen";
  }

  // What the visitor does ---------------------------------------------------------------------------------------

  choose(patch) {
    state.set(patch);
    this.showChoices();
    this.runSoon();
  }

  chooseParts() {
    const chosen = [...this.parts.querySelectorAll("input:checked")].map(({ value }) => value);
    this.choose({ parts: chosen.join(";") });
  }

  /** Give or take an input; where a group of the data was shown, the choice begins with this one. */
  toggleRow(row) {
    if (this.isAutomatic()) {
      this.rows = [row];
      return this.choose({ rows: row, members: "chosen" });
    }
    if (this.rows.includes(row)) this.rows = this.rows.filter((each) => each !== row);
    else if (this.rows.length < MOST) this.rows = [...this.rows, row];
    else return say(`At most ${MOST} inputs: take one away first.`, "wrong");
    return this.choose({ rows: this.rows.join(",") });
  }

  // What is shown -------------------------------------------------------------------------------------------------

  showChoices() {
    const mode = this.mode();
    this.modes.show(mode);
    this.forLines.hidden = mode !== "interpolate";
    this.forGroups.hidden = mode !== "accumulate";
    this.partsQuestion.textContent = QUESTIONS[mode];
    const chosen = this.chosenParts(mode);
    for (const box of this.parts.querySelectorAll("input")) box.checked = chosen.includes(box.value);
    this.steps.value = state.get("steps") || 9;
    this.across.value = state.get("across");
    this.ownRows.checked = state.get("members") === "chosen";
    this.chips.hidden = this.isAutomatic();
    this.chips.replaceChildren(...this.rows.map((row) => this.rowChip(row)));
    this.gallery.mark();
  }

  rowChip(row) {
    const away = button(icon("close"), () => this.toggleRow(row), { "aria-label": `Take away row ${row}` });
    return el("span", { class: "chip input-chip", role: "listitem" }, el("img", { src: rowPicture(this.app.run, row), alt: "", class: "picture" }), `#${row}`, away);
  }

  /** The parts of the address; a swap without any would show nothing, so it has one that carries something. */
  chosenParts(mode) {
    const { about } = this.app;
    const known = new Set([...about.blocks, ...about.knobs].map(({ name }) => name));
    const chosen = state.get("parts").split(";").filter((name) => known.has(name));
    if (chosen.length || mode !== "swap") return chosen;
    const used = about.blocks.filter(({ name }) => about.knobs.some((knob) => knob.block === name && isUsed(about, knob)));
    return [used.length > 1 ? used[0].name : ordered(about)[0].name];
  }

  async run() {
    this.stop();
    const mode = this.mode();
    const automatic = this.isAutomatic();
    if (!automatic && this.rows.length < FEWEST) {
      this.result.refuse(`Choose ${FEWEST} to ${MOST} inputs.`);
      return;
    }
    const shown = await this.result.run(mode, automatic ? null : this.rows, this.params(mode));
    if (shown && mode === "accumulate") this.showMembers(shown.columns.length - 1);
    this.keep.allow("gif", Boolean(shown?.plays));
    this.keep.changed();
  }

  params(mode) {
    const blocks = this.chosenParts(mode);
    if (mode !== "interpolate") return { blocks };
    const across = state.get("across");
    return { blocks, steps: Number(state.get("steps") || 9), across: across ? [across] : [] };
  }

  // Members of a group, one by one --------------------------------------------------------------------------------

  showMembers(members) {
    const most = (this.result.shown?.columns.length ?? 1) - 1;
    this.members = Math.max(1, Math.min(most, members));
    this.memberWords.textContent = `${this.members} of ${count(most, "member")}`;
    this.fewer.disabled = this.members <= 1;
    this.more.disabled = this.members >= most;
    this.result.reveal(this.members + 1);
    relabel(this.playMembers, this.timer ? "stop" : "play", this.timer ? "Stop" : "Play");
    return this.members < most;
  }

  togglePlay() {
    if (this.timer) {
      this.stop();
      return;
    }
    this.timer = setInterval(() => this.showMembers(this.members + 1) || this.stop(), MEMBER_TIME);
    this.showMembers(1);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    relabel(this.playMembers, "play", "Play");
  }
}
