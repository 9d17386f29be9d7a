/** A form for any JSON schema of an operation's parameters: a new operation needs nothing here. */

import { button, el } from "./parts.js";

/** The schema itself: behind a reference, or beside null. */
function resolved(schema, root) {
  if (schema.$ref) return { ...root.$defs?.[schema.$ref.split("/").pop()], ...schema, $ref: undefined };
  const kinds = schema.anyOf ?? (schema.allOf?.length === 1 ? schema.allOf : null);
  if (!kinds) return schema;
  const plain = kinds.filter((each) => each.type !== "null").map((each) => resolved(each, root));
  const nullable = plain.length < kinds.length;
  if (plain.every(isChoice)) return { ...schema, anyOf: undefined, nullable, enum: plain.flatMap(choicesOf) };
  return { ...plain[0], ...schema, anyOf: undefined, allOf: undefined, nullable };
}

const isChoice = (schema) => "const" in schema || "enum" in schema;
const choicesOf = (schema) => schema.enum ?? [schema.const];

/** Names are separated by commas; those inside brackets belong to the name. */
const splitNames = (text) => text.split(/,(?![^[]*\])/).map((name) => name.trim()).filter(Boolean);

const asText = (value) => (value === null || value === undefined ? "" : Array.isArray(value) ? value.join(", ") : String(value));

/** Text in which `names` are set as code. */
export const inWords = (text) => text.split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part));

/** What each kind of schema is in a form: a control, and how its text becomes a value. */
function controlOf(schema, id, names) {
  if (isChoice(schema)) return choiceControl(schema, id);
  if (schema.type === "boolean") return { control: el("input", { type: "checkbox", id }), read: (control) => control.checked };
  if (schema.type === "integer" || schema.type === "number") return numberControl(schema, id);
  if (schema.type === "array") return listControl(schema, id, names);
  return { control: el("input", { type: "text", id, autocomplete: "off" }), read: (control) => control.value };
}

function choiceControl(schema, id) {
  const choices = [...(schema.nullable ? [null] : []), ...choicesOf(schema)];
  const control = el("select", { id }, choices.map((choice) => el("option", { value: asText(choice) }, choice === null ? "(none)" : String(choice))));
  return { control, read: () => choices[control.selectedIndex] };
}

function numberControl(schema, id) {
  const whole = schema.type === "integer";
  const least = schema.minimum ?? (whole && schema.exclusiveMinimum !== undefined ? schema.exclusiveMinimum + 1 : schema.exclusiveMinimum);
  const control = el("input", { type: "number", id, step: whole ? 1 : "any", min: least, max: schema.maximum });
  return { control, read: () => (control.value === "" ? null : Number(control.value)) };
}

function listControl(schema, id, names) {
  const list = el("datalist", { id: `${id}-names` });
  const control = el("input", { type: "text", id, list: list.id, autocomplete: "off" });
  const numbers = ["integer", "number"].includes(schema.items?.type);
  const offer = () => {
    const begun = control.value.includes(",") ? `${control.value.slice(0, control.value.lastIndexOf(",") + 1)} ` : "";
    list.replaceChildren(...names.map((name) => el("option", { value: begun + name })));
  };
  if (!numbers) {
    control.addEventListener("input", offer);
    offer();
  }
  const read = () => splitNames(control.value).map((part) => (numbers ? Number(part) : part));
  return { control, list, read };
}

export class Form {
  /**
   * schema: of the parameters, an object
   * names:  blocks and dimensions to offer where names are asked for
   */
  constructor(schema, names) {
    this.fields = Object.entries(schema.properties ?? {}).map(([name, own]) => this.field(name, resolved(own, schema), names));
    this.nodes = this.fields.map(({ node }) => node);
  }

  field(name, schema, names) {
    const id = `param-${name}`;
    const { control, list = null, read } = controlOf(schema, id, names);
    const initial = schema.default ?? (schema.type === "array" ? [] : null);
    const hint = el("span", { class: "hint", id: `${id}-hint` }, inWords(schema.description ?? ""));
    control.setAttribute("aria-describedby", hint.id);
    control.dataset.param = name;
    const label = el("label", { for: id }, name.replaceAll("_", " "));
    const check = schema.type === "boolean";
    const node = el("div", { class: check ? "param check" : "param" }, check ? [control, label] : [label, control], list, hint);
    const field = { name, node, control, schema, initial, read: () => read(control) };
    fill(field, asText(initial));
    return field;
  }

  /** The parameters that differ from their defaults. */
  read() {
    const found = {};
    for (const { name, initial, read, schema } of this.fields) {
      const value = read();
      const left = value === null && !schema.nullable;
      if (!left && JSON.stringify(value) !== JSON.stringify(initial)) found[name] = value;
    }
    return found;
  }

  /** The same as text, for the address. */
  written() {
    return Object.fromEntries(Object.entries(this.read()).map(([name, value]) => [name, asText(value)]));
  }

  /** From the address; what it does not name has its default. */
  write(texts) {
    for (const field of this.fields) fill(field, texts[field.name] ?? asText(field.initial));
  }
}

function fill({ control }, text) {
  if (control.type === "checkbox") control.checked = text === "true";
  else control.value = text;
}

/** Row numbers as text with commas, and a button for the input that the page shows. */
export function rowsField({ least, some, current }) {
  const control = el("input", { type: "text", id: "operation-rows", pattern: "\\s*(\\d+\\s*(,\\s*\\d+\\s*)*)?", autocomplete: "off", inputmode: "numeric", title: "Row numbers, such as 0,5,7" });
  const text = least ? `At least ${least}; empty: ${some} of the test rows.` : "This operation needs none.";
  const use = async () => {
    const row = await current();
    if (row !== null) control.value = [...splitNames(control.value), row].join(",");
  };
  const node = el(
    "div",
    { class: "param" },
    el("label", { for: control.id }, "rows"),
    el("span", { class: "inline" }, control, button("Use current input", use, { class: "quiet", "data-testid": "use-current" })),
    el("span", { class: "hint" }, text),
  );
  const read = () => (control.value.trim() === "" ? null : control.value.split(",").map(Number));
  return { node, control, read };
}
