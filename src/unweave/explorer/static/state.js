/** The state of the page is its address: `#view?key=value&...`. A link restores what its sender saw. */

const WAIT = 150;
const listeners = new Set();
let values = new Map();
let timer = 0;
/** The address as it was last read or written. */
let known = "";

export const state = {
  /** A value as text, "" when there is none. */
  get: (key) => values.get(key) ?? "",

  /** A value as a whole number, null when there is none. */
  whole(key) {
    const text = values.get(key) ?? "";
    return /^\d{1,15}$/.test(text) ? Number(text) : null;
  },

  /** Keys that begin with `prefix`, without it: [[name, value], ...]. */
  under: (prefix) =>
    [...values].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => [key.slice(prefix.length), value]),

  /** Change values; null or "" removes. The address follows a moment later, since sliders change it often. */
  set(patch) {
    for (const [key, value] of Object.entries(patch)) {
      if (value === null || value === undefined || value === "") values.delete(key);
      else values.set(key, String(value));
    }
    clearTimeout(timer);
    timer = setTimeout(state.flush, WAIT);
  },

  /** Write the address now. */
  flush() {
    clearTimeout(timer);
    if (location.hash !== known) return; // changed by hand: `hashchange` is on its way, and must find it as it is
    const text = written();
    if (text !== known) history.replaceState(null, "", text);
    known = location.hash;
  },

  /** Be told when the address was changed by hand, by a link or by the back button. */
  restored: (listener) => listeners.add(listener),
};

/** Brackets, commas and colons stay readable: they are part of names such as z[3]. */
function escaped(text) {
  return encodeURIComponent(text).replace(/%(5B|5D|2C|3A|3B|3D|2F)/gi, (found) => decodeURIComponent(found));
}

function written() {
  const pairs = [...values].filter(([key]) => key !== "view").map(([key, value]) => `${key}=${escaped(value)}`);
  return `#${values.get("view") ?? "explore"}${pairs.length ? `?${pairs.join("&")}` : ""}`;
}

function read() {
  known = location.hash;
  const [view, query = ""] = splitOnce(known.replace(/^#/, ""), "?");
  values = new Map(new URLSearchParams(query.replaceAll("+", "%2B")));
  if (view) values.set("view", view);
}

function splitOnce(text, mark) {
  const place = text.indexOf(mark);
  return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}

addEventListener("hashchange", () => {
  clearTimeout(timer);
  read();
  for (const listener of listeners) listener();
});
read();
