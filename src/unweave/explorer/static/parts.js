/** Small parts that all views share: elements, messages, copying, downloads, moving by arrow keys. */

/** An element; functions become listeners, false and null leave an attribute out. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

const ICONS = {
  play: "M5 3.2v9.6l7.5-4.8z",
  stop: "M4.5 4.5h7v7h-7z",
  random: "M2.5 4.5h2.5l5 7h3.5M2.5 11.5h2.5l1.3-1.8M8.7 6.3l1.3-1.8h3.5M11.8 2.8l1.7 1.7-1.7 1.7M11.8 9.8l1.7 1.7-1.7 1.7",
  reset: "M3.3 8a4.7 4.7 0 1 0 1.5-3.4M3 2.5v3h3",
  link: "M6.8 9.2l2.4-2.4M7 4.7l1.2-1.2a3 3 0 0 1 4.3 4.3l-1.2 1.2M9 11.3l-1.2 1.2a3 3 0 0 1-4.3-4.3l1.2-1.2",
  down: "M8 2.5v7.5M4.8 7l3.2 3.2 3.2-3.2M3 13h10",
  close: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  copy: "M5.5 5.5v-2.5h7.5v7.5h-2.5M3 5.5h7.5v7.5h-7.5z",
};

export function icon(name) {
  const drawn = { fill: ["play", "stop"].includes(name) ? "currentColor" : "none", stroke: "currentColor" };
  const path = svg("path", { d: ICONS[name], ...drawn, "stroke-width": 1.5, "stroke-linejoin": "round", "stroke-linecap": "round" });
  return svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", class: "icon" }, path);
}

/** Make an element's content anew: an icon and a word. */
export const relabel = (node, name, text) => node.replaceChildren(icon(name), text);

export const button = (label, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, label);

/** Options from [value, label] pairs; the selection stays when it is still there. */
export function fillSelect(select, pairs, value = select.value) {
  select.replaceChildren(...pairs.map(([own, label]) => el("option", { value: own }, label)));
  if (pairs.some(([own]) => own === value)) select.value = value;
}

/** A select with its label. */
export function labelled(label, control, attributes = {}) {
  return el("label", { class: "field", ...attributes }, el("span", {}, label), control);
}

/** A few choices of which one holds: buttons that look like one control. */
export function segmented(label, choices, onchoose) {
  const buttons = choices.map(([value, text]) =>
    button(text, () => onchoose(value), { "data-value": value, "aria-pressed": "false" }),
  );
  const root = el("div", { class: "segmented", role: "group", "aria-label": label }, buttons);
  const show = (value) => {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.value === value));
  };
  const allow = (value, allowed) => {
    for (const each of buttons) if (each.dataset.value === value) each.hidden = !allowed;
  };
  return { root, show, allow };
}

let toastTimer = 0;

/** A short message that is seen and read aloud, then goes. */
export function say(text, kind = "fine") {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.dataset.kind = kind;
  toast.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => toast.classList.remove("shown"), kind === "wrong" ? 7000 : 2600);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text); // pages of another machine without https have no clipboard
  }
  say(`${what} copied.`);
}

function copyBySelection(text) {
  const field = el("textarea", { class: "unseen" });
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function download(name, blob) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** CSV text of rows of cells, as a file. */
export function csvBlob(rows) {
  const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return new Blob([rows.map((row) => row.map(cell).join(",")).join("\n") + "\n"], { type: "text/csv" });
}

export function debounced(work, wait) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), wait);
  };
}

export const calmMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const TOWARDS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * Many buttons as one stop of the tab key: arrow keys go to the nearest one in their direction.
 * The function it gives is called after the buttons were made anew.
 */
export function roving(root, selector) {
  let stop = null;
  const settle = () => {
    const all = [...root.querySelectorAll(selector)];
    if (!all.includes(stop)) [stop] = all;
    for (const each of all) each.tabIndex = each === stop ? 0 : -1;
  };
  root.addEventListener("focusin", (event) => {
    stop = event.target.closest(selector) ?? stop;
    settle();
  });
  root.addEventListener("keydown", (event) => {
    const towards = TOWARDS[event.key];
    const from = event.target.closest(selector);
    if (!towards || !from) return;
    event.preventDefault();
    nearest([...root.querySelectorAll(selector)], from, towards)?.focus();
  });
  return settle;
}

function nearest(all, from, [right, down]) {
  const centre = (node) => {
    const box = node.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = centre(from);
  let best = null;
  let least = Infinity;
  for (const node of all) {
    const [dx, dy] = [centre(node)[0] - x, centre(node)[1] - y];
    const along = dx * right + dy * down;
    const aside = Math.abs(dx * down) + Math.abs(dy * right);
    if (node.offsetParent && along > 2 && along + 4 * aside < least) [best, least] = [node, along + 4 * aside];
  }
  return best;
}

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
