/** Operations: everything the registry offers for this run, as forms made from their parameters. */

import * as api from "./api.js";
import { Form, inWords, rowsField } from "./form.js";
import { currentSource } from "./inputs.js";
import { keepBar } from "./keep.js";
import { button, el, relabel } from "./parts.js";
import { Result } from "./result.js";
import { state } from "./state.js";

export const create = (app) => new Operate(app);

class Operate {
  constructor(app) {
    Object.assign(this, { app, all: null, chosen: null, formRun: null });
    this.list = el("nav", { class: "operation-list card", "aria-label": "Operations" });
    this.title = el("h2", {});
    this.summary = el("p", { class: "lead" });
    this.text = el("div", { class: "about-text" });
    this.fields = el("div", { class: "params" });
    const go = el("button", { class: "main", id: "run-operation" });
    relabel(go, "play", "Run");
    const submit = (event) => {
      event.preventDefault();
      this.app.attempt(() => this.run());
    };
    this.form = el("form", { id: "operation-form", onsubmit: submit }, this.fields, el("div", { class: "toolbar" }, go));
    this.result = new Result(app);
    this.keep = keepBar(app, {
      name: () => `${app.run}-${this.chosen?.name}`,
      files: { png: () => this.result.file("png"), gif: () => this.result.file("gif"), csv: () => this.result.file("csv") },
      code: () => this.result.code(),
    });
    const grid = el(
      "div",
      { class: "operate" },
      this.list,
      el("section", { class: "card operation-card", "aria-label": "Parameters" }, this.title, this.summary, this.text, this.form),
      this.result.root,
    );
    this.root = el("div", { class: "view-body" }, grid, this.keep.root);
  }

  async show() {
    this.all ??= await api.operations();
    this.offered = this.all.filter(({ name }) => this.app.about.operations.includes(name));
    const chosen = this.offered.find(({ name }) => name === state.get("op")) ?? this.offered[0];
    this.buildList(chosen);
    if (!chosen) return;
    this.buildForm(chosen);
    this.params.write(Object.fromEntries(state.under("p.")));
    this.rows.control.value = state.get("orows");
    await this.run();
  }

  changed() {
    return this.show();
  }

  hide() {
    this.result.stop();
  }

  buildList(chosen) {
    this.list.replaceChildren(
      ...this.offered.map((operation) =>
        button([el("strong", {}, operation.name), el("span", {}, operation.summary)], () => this.choose(operation), {
          "data-operation": operation.name,
          "aria-current": operation === chosen ? "true" : null,
        }),
      ),
    );
    this.showChosen();
  }

  /** The chosen one in sight, without a move of the page. */
  showChosen() {
    const node = this.list.querySelector("[aria-current]");
    if (!node) return;
    const below = node.offsetTop + node.offsetHeight - this.list.clientHeight;
    if (node.offsetTop < this.list.scrollTop || below > this.list.scrollTop) this.list.scrollTop = Math.max(0, below + 8);
  }

  choose(operation) {
    this.forgetParams();
    state.set({ op: operation.name });
    return this.app.attempt(() => this.show());
  }

  forgetParams() {
    state.set(Object.fromEntries(state.under("p.").map(([name]) => [`p.${name}`, null])));
  }

  buildForm(operation) {
    if (this.chosen === operation && this.formRun === this.app.about) return;
    this.chosen = operation;
    this.formRun = this.app.about;
    this.title.textContent = operation.name;
    this.summary.textContent = operation.summary;
    this.text.replaceChildren(...operation.about.split("\n\n").map((part) => el("p", {}, inWords(part))));
    const { blocks, knobs } = this.app.about;
    this.params = new Form(operation.params, [...new Set([...blocks, ...knobs].map(({ name }) => name))]);
    this.rows = rowsField({
      least: operation.inputs,
      some: operation.default_inputs,
      current: async () => (await currentSource(this.app)).row ?? null,
    });
    this.fields.replaceChildren(this.rows.node, ...this.params.nodes);
  }

  async run() {
    if (!this.form.reportValidity()) return;
    this.forgetParams();
    const texts = Object.entries(this.params.written()).map(([name, text]) => [`p.${name}`, text]);
    state.set({ op: this.chosen.name, orows: this.rows.control.value.replaceAll(" ", ""), ...Object.fromEntries(texts) });
    const shown = await this.result.run(this.chosen.name, this.rows.read(), this.params.read());
    this.keep.allow("gif", Boolean(shown?.plays));
    this.keep.changed();
  }
}
