/** Sliders and buttons that turn a code, block by block, the most informative first. */

import * as api from "./api.js";
import { categories, findKnob, isUsed, meaning, nameWidth, ordered, range, shares, told, turned, valueOf, worded } from "./codes.js";
import { button, count, el, icon } from "./parts.js";
import { PAGE, paint, pictureCanvas } from "./pictures.js";

/** Observations that fit on a button as they are. */
const PICTURED = ["image", "matrix"];
/** The server makes at most this many pictures for one request. */
const MOST = 512;
/** The width of a slider's thumb, whose centre stays half of it away from the ends. */
const THUMB = 16;
const onTrack = (part) => `calc(${THUMB / 2}px + ${part} * (100% - ${THUMB}px))`;

export class KnobPanel {
  /**
   * turn:  told of a knob's name and its new value
   * pick:  told of the knob that is played
   * clear: told of the name of a knob that goes back to the input's value
   */
  constructor({ turn, pick, clear }) {
    Object.assign(this, { turn, pick, clear, parts: new Map(), about: null });
    this.body = el("div", { class: "knob-blocks" });
    this.root = el("section", { class: "knobs card", "aria-label": "Dimensions" }, this.body);
  }

  /** New weights of the same model change ranges only: a slider that is held stays in the hand. */
  build(about) {
    const names = (each) => JSON.stringify(each?.knobs.map(({ name, values }) => [name, values]));
    const same = names(this.about) === names(about);
    this.about = about;
    this.most = Math.max(1e-9, ...about.knobs.map((knob) => knob.nats));
    if (same) {
      for (const part of this.parts.values()) this.measure(part);
      return;
    }
    this.parts.clear();
    this.root.style.setProperty("--name", nameWidth(about.knobs));
    this.body.replaceChildren(...about.blocks.map((block) => this.block(block)));
  }

  /** Set what depends on the weights: the range of a slider and the bar of information. */
  measure(part) {
    const knob = findKnob(this.about, part.knob.name);
    const words = `${knob.nats.toFixed(2)} nats`;
    part.bar.style.width = `${Math.max(0, Math.min(1, knob.nats / this.most)) * 100}%`;
    part.knows.replaceChildren(...known(knob));
    part.name.title = `${words} of information${knob.knows ? `; knows ${inWords(knob)}` : ""}`;
    part.name.setAttribute("aria-label", `${knob.name}, ${words}${knob.knows ? `, knows ${inWords(knob)}` : ""}: choose for Play`);
    if (!part.input) {
      part.buttons.forEach((node, place) => part.label(node, part.values[place], knob));
      return;
    }
    const { low, high } = range(this.about, knob);
    Object.assign(part, { low, high });
    for (const [name, value] of Object.entries({ min: low, max: high, step: (high - low) / 240 })) part.input.setAttribute(name, value);
  }

  block(block) {
    const own = ordered(this.about).filter((knob) => knob.block === block.name);
    const used = own.filter((knob) => isUsed(this.about, knob));
    const unused = own.filter((knob) => !isUsed(this.about, knob));
    const scope = block.scope === "example" ? "" : ` of the ${block.scope}`;
    return el(
      "div",
      { class: "knob-block", "data-block": block.name },
      el("h2", {}, block.name, el("span", { class: "hint" }, `${block.kind}${scope}`)),
      used.map((knob) => this.row(knob)),
      unused.length
        ? el(
            "details",
            { class: "unused" },
            el("summary", {}, count(unused.length, "unused dimension")),
            unused.map((knob) => this.row(knob)),
          )
        : null,
    );
  }

  row(knob) {
    const bar = el("span");
    const knows = el("span", { class: "knows" });
    const name = button([el("span", { class: "name" }, knob.name), knows, el("span", { class: "nats" }, bar)], () => this.pick(knob.name), { class: "knob-name", "aria-pressed": "false" });
    const back = button(icon("close"), () => this.clear(knob.name), { class: "knob-back", "aria-label": `Reset ${knob.name}`, title: "Back to the input's value" });
    const own = knob.kind === "real" ? this.slider(knob) : this.choices(knob);
    const root = el("div", { class: "knob", "data-kind": knob.kind }, name, own.control, own.output, back);
    const part = { ...own, knob, root, name, knows, back, bar };
    this.measure(part);
    this.parts.set(knob.name, part);
    return root;
  }

  slider(knob) {
    const turn = () => this.turn(knob.name, Number(input.value));
    const input = el("input", {
      type: "range",
      "aria-label": knob.name,
      "data-knob": knob.name,
      oninput: turn,
      onfocus: () => this.pick(knob.name),
    });
    const band = el("span", { class: "band" });
    const home = el("span", { class: "home" });
    const control = el("span", { class: "slider" }, band, home, input);
    return { control, output: el("span", { class: "value" }), input, band, home };
  }

  choices(knob) {
    const values = knob.kind === "simplex" ? Array.from({ length: categories(knob) }, (_, number) => number) : knob.values;
    const hasPictures = this.about.can.decode && PICTURED.includes(this.about.kind) && knob.categories !== null;
    const buttons = values.map((value) =>
      button(
        [el("span", { class: "fill" }), hasPictures ? pictureCanvas({ "aria-hidden": "true" }) : null, el("span", { class: "words" })],
        () => this.turn(knob.name, value),
        { "data-knob": knob.name, "data-value": value, "aria-pressed": "false", onfocus: () => this.pick(knob.name) },
      ),
    );
    const control = el("span", { class: "choices", role: "group", "aria-label": knob.name }, buttons);
    return { control, output: null, buttons, values, label: hasPictures && !knob.factor ? labelByPicture : label };
  }

  /** The pictures of categories: each alone, all else of the code at its mean. They change with the weights only. */
  async draw(run) {
    const { about } = this;
    const wanted = [...this.parts.values()].flatMap(({ knob, buttons = [], values }) =>
      buttons.map((node, place) => ({ canvas: node.querySelector("canvas"), code: turned(about.mean, knob, values[place]) })),
    );
    const cells = wanted.filter(({ canvas }) => canvas).slice(0, MOST);
    if (!cells.length || this.drawn === about) return;
    const files = await api.decode(run, cells.map(({ code }) => code), `${PAGE}-categories`);
    if (!files || this.about !== about) return;
    await Promise.all(files.map((file, place) => paint(cells[place].canvas, file)));
    this.drawn = about;
  }

  /** The code that is shown, the input it began with, and which knobs were turned. */
  show(code, input, isTurned, picked) {
    for (const part of this.parts.values()) {
      const { knob, root, name, back } = part;
      const changed = isTurned(knob.name);
      root.classList.toggle("turned", changed);
      back.disabled = !changed;
      name.setAttribute("aria-pressed", String(knob.name === picked));
      root.classList.toggle("picked", knob.name === picked);
      if (part.input) this.showSlider(part, code, input);
      else showChoices(part, code);
    }
  }

  showSlider({ knob, input: field, output, band, home, low, high }, code, input) {
    const value = valueOf(code, knob);
    if (document.activeElement !== field || Math.abs(Number(field.value) - value) > (high - low) / 200) field.value = value;
    field.setAttribute("aria-valuetext", told(value));
    output.textContent = value.toFixed(2);
    const place = (number) => Math.max(0, Math.min(1, (number - low) / (high - low)));
    const centre = valueOf(input.code, knob);
    const spread = Math.max(0, ...knob.columns.map((column) => input.spread[column] ?? 0));
    home.style.left = onTrack(place(centre));
    band.style.left = onTrack(place(centre - spread));
    band.style.width = `calc(${place(centre + spread) - place(centre - spread)} * (100% - ${THUMB}px))`;
  }

  /** Open the fold that hides a knob, so that what is played can be seen. */
  reveal(name) {
    const fold = this.parts.get(name)?.root.closest("details");
    if (fold) fold.open = true;
  }
}

const percent = (share) => `${Math.round(100 * share)} %`;

/** What a dimension knows about: the best factor and its share, a second one where there is one, or that it knows none. */
function known({ knows }) {
  if (!knows) return [];
  if (!knows.length) return [el("span", { class: "none" }, "no factor")];
  return knows.map(({ factor, share }) => el("span", {}, `${factor} ${percent(share)}`));
}

const inWords = ({ knows }) => knows.map(({ factor, share }) => `${percent(share)} of ${factor}`).join(", ") || "no factor";

function grounds(found, factor) {
  if (!found?.rows) return "no row is in it";
  const rows = count(found.rows, "row");
  return found.label ? `${factor} ${found.label} in ${percent(found.share)} of its ${rows}` : `${rows}, no ${factor} in most of them`;
}

/** What a category stands for, and for what share of its rows that is true. */
function label(node, value, knob) {
  const found = knob.categories?.find((each) => each.value === value);
  const own = meaning(knob, value);
  node.lastChild.replaceChildren(own, found?.label ? el("span", { class: "share" }, ` · ${percent(found.share)}`) : "");
  node.dataset.tip = knob.factor ? `Category ${told(value)}: ${grounds(found, knob.factor)}` : "";
  node.setAttribute("aria-label", `${knob.name} ${worded(knob, value)}`);
}

/** Without factors a category is what its picture shows. */
function labelByPicture(node, value, knob) {
  node.dataset.tip = `Category ${told(value)}`;
  node.setAttribute("aria-label", `${knob.name} ${told(value)}`);
}

function showChoices({ knob, buttons, values }, code) {
  const found = knob.kind === "simplex" ? shares(code, knob) : values.map((value) => Number(value === valueOf(code, knob)));
  buttons.forEach((each, place) => {
    each.setAttribute("aria-pressed", String(found[place] > 0.99));
    each.firstChild.style.height = `${Math.max(0, Math.min(1, found[place])) * 100}%`;
    each.title = [each.dataset.tip, knob.kind === "simplex" ? `${percent(found[place])} of this code` : ""].filter(Boolean).join("; ");
  });
}
