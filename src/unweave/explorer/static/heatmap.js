/** Dimension by factor: what each dimension knows, as colours in a table or as squares (Hinton). */

import { isUsed, ordered } from "./codes.js";
import { button, el, roving } from "./parts.js";
import { asBlob } from "./pictures.js";
import { colour, sheet, write } from "./plots.js";

const [NAME, LINE, COLUMN] = [110, 30, 84];

export class HeatMap {
  /** pick: told of a dimension and a factor */
  constructor({ pick }) {
    Object.assign(this, { pick, shown: null });
    this.root = el("div", { class: "heat-scroll" });
    this.settle = roving(this.root, ".heat");
  }

  /** kind: "shares" of a factor's entropy, or "importance" of DCI */
  show(about, knows, { kind, all, knob, factor }) {
    const squares = kind === "importance";
    const source = squares ? knows.importance : { factors: knows.factors, values: knows.shares };
    const knobs = ordered(about).filter((each) => all || isUsed(about, each));
    const lines = knobs.map((each) => ({ knob: each, values: source.values[knows.knobs.indexOf(each.name)] }));
    const most = Math.max(1e-9, ...lines.flatMap(({ values }) => values));
    this.shown = { factors: source.factors, lines, squares, most };
    const head = el("tr", {}, el("td"), source.factors.map((name) => el("th", { scope: "col" }, breakable(name))));
    const body = lines.map((line) => this.line(line, about, { knob, factor }));
    this.root.replaceChildren(el("table", { class: squares ? "heat-map hinton" : "heat-map" }, el("thead", {}, head), el("tbody", {}, body)));
    this.settle();
  }

  line({ knob, values }, about, chosen) {
    const cells = values.map((value, place) => this.cell(knob, this.shown.factors[place], value, chosen));
    return el("tr", { class: isUsed(about, knob) ? "" : "is-unused" }, el("th", { scope: "row" }, knob.name), cells);
  }

  cell(knob, factor, value, chosen) {
    const { squares, most } = this.shown;
    const text = squares ? value.toFixed(2) : `${Math.round(100 * value)} %`;
    const label = squares ? `${knob.name} has importance ${text} for ${factor}` : `${knob.name} knows ${text} of ${factor}`;
    const pressed = chosen.knob === knob.name && chosen.factor === factor;
    const node = button(squares ? el("span", { class: "square" }) : text, () => this.pick(knob.name, factor), {
      class: "heat",
      "data-knob": knob.name,
      "data-factor": factor,
      "data-value": value.toFixed(4),
      "aria-label": label,
      "aria-pressed": String(pressed),
      title: label,
    });
    if (squares) node.firstChild.style.width = `${100 * Math.sqrt(Math.max(0, value) / most)}%`;
    else {
      node.style.setProperty("--share", `${Math.round(100 * value)}%`);
      node.classList.toggle("strong", value > 0.5);
    }
    return el("td", {}, node);
  }

  csv() {
    const { factors, lines } = this.shown;
    return [["dimension", ...factors], ...lines.map(({ knob, values }) => [knob.name, ...values])];
  }

  png(title) {
    const { factors, lines, squares, most } = this.shown;
    const { canvas, context } = sheet(NAME + factors.length * COLUMN + 20, 70 + lines.length * LINE);
    write(context, title, 16, 20, { weight: 600, ink: colour("ink"), size: 13 });
    factors.forEach((name, place) => write(context, name, NAME + (place + 0.5) * COLUMN, 46, { align: "center" }));
    lines.forEach(({ knob, values }, line) => {
      const y = 60 + line * LINE;
      write(context, knob.name, NAME - 10, y + LINE / 2, { align: "right" });
      values.forEach((value, place) => paintCell(context, value, { x: NAME + place * COLUMN, y, squares, most }));
    });
    return asBlob(canvas);
  }
}

/** A name that may be broken after each underscore. */
const breakable = (name) => name.split("_").flatMap((part, place) => (place ? ["_", el("wbr"), part] : [part]));

function paintCell(context, value, { x, y, squares, most }) {
  context.fillStyle = colour("sunken");
  context.fillRect(x + 1, y + 1, COLUMN - 2, LINE - 2);
  context.fillStyle = colour("accent");
  if (squares) {
    const size = (LINE - 6) * Math.sqrt(Math.max(0, value) / most);
    context.fillRect(x + (COLUMN - size) / 2, y + (LINE - size) / 2, size, size);
    return;
  }
  context.globalAlpha = value;
  context.fillRect(x + 1, y + 1, COLUMN - 2, LINE - 2);
  context.globalAlpha = 1;
  write(context, `${Math.round(100 * value)} %`, x + COLUMN / 2, y + LINE / 2, { align: "center", ink: colour(value > 0.5 ? "on-accent" : "ink") });
}
