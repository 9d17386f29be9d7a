/** What a visitor takes along from a view: its link, its pictures and numbers, and the code that makes them again. */

import { button, copy, debounced, download, el, icon } from "./parts.js";
import { state } from "./state.js";

const TITLES = { png: "PNG", gif: "GIF", csv: "CSV" };

/** A button that downloads what `make` gives: a blob, or null for nothing. */
export function fileButton(app, kind, name, make) {
  const save = () =>
    app.attempt(async () => {
      const made = await make();
      if (made) download(`${name()}.${kind}`, made);
    });
  return button([icon("down"), TITLES[kind]], save, { class: "quiet", "data-testid": `keep-${kind}` });
}

/** The code that makes a thing again, with buttons to copy it: lines() gives [[title, text], ...], or a sentence. */
function codeDetails(app, lines) {
  const list = el("div", { class: "code-lines" });
  const details = el("details", { class: "code", "data-testid": "keep-code" });
  let turn = 0;
  const fill = async () => {
    if (!details.open) return;
    const own = ++turn;
    const found = await lines().catch((error) => error.message);
    if (own !== turn) return; // a later one fills: these lines may be of what was shown before
    const nodes = typeof found === "string" ? [el("p", { class: "note" }, found)] : found.map((each) => codeLine(...each));
    list.replaceChildren(...nodes);
  };
  details.append(el("summary", {}, "In Python / on the command line"), list);
  details.addEventListener("toggle", fill);
  return { details, changed: debounced(fill, 300) };
}

function codeLine(title, text) {
  return el(
    "div",
    { class: "code-line" },
    el("span", {}, title),
    el("code", {}, text),
    button([icon("copy"), el("span", { class: "unseen" }, `Copy: ${title}`)], () => copy(text, title), {
      class: "quiet",
      title: "Copy",
    }),
  );
}

/**
 * The bar of a view.
 * name:  () => how files are called, without ending
 * files: {png, gif, csv}: () => blob; those a view lacks are left out
 * code:  async () => [[title, text], ...], or a sentence when no code makes the same
 */
export function keepBar(app, { name, files = {}, code }) {
  const link = () => {
    state.flush();
    copy(location.href, "Link");
  };
  const buttons = Object.entries(files).map(([kind, make]) => [kind, fileButton(app, kind, name, make)]);
  const { details, changed } = codeDetails(app, code);
  const root = el(
    "footer",
    { class: "keep", "aria-label": "Keep" },
    button([icon("link"), "Copy link"], link, { class: "quiet", "data-testid": "copy-link" }),
    buttons.map(([, node]) => node),
    details,
  );
  const allow = (kind, allowed) => {
    for (const [own, node] of buttons) if (own === kind) node.hidden = !allowed;
  };
  /** Stop a file from being made for a while; why: the reason, "" to go on. */
  const refuse = (kind, why) => {
    for (const [own, node] of buttons) if (own === kind) Object.assign(node, { disabled: Boolean(why), title: why });
  };
  return { root, allow, refuse, changed };
}

/** A Python text literal: quoted as Python would, so that it can be pasted. */
export const quoted = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

/** A word of a shell command. */
export const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
