/** The page: header, tabs, messages, and which run is open. Views are loaded when their tab is first opened. */

import * as api from "./api.js";
import { count, el, fillSelect, roving, say } from "./parts.js";
import { state } from "./state.js";

const VIEWS = [
  ["explore", "Explore", () => import("./explore.js")],
  ["mix", "Swap & mix", () => import("./mix.js")],
  ["understand", "Understand", () => import("./understand.js")],
  ["training", "Training", () => import("./training.js")],
  ["operations", "Operations", () => import("./operate.js")],
];
/** How often a run that trains is asked whether its weights are new. */
const WATCH = 5000;
/** What belongs to one run: names of its dimensions, and rows of its data. */
const OF_THE_MODEL = ["set", "seed", "pick", "x", "y", "parts", "across", "knob", "sx", "sy", "own"];
const OF_THE_DATA = ["row", "rows", "factor", "colour", "orows"];

const $ = (id) => document.getElementById(id);

/** What views know of the page. `about` is null while the run cannot be opened. */
const app = {
  runs: [],
  run: "",
  about: null,
  otherRun: "",
  otherAbout: null,

  /** Do something; what goes wrong is said, never lost. */
  async attempt(work) {
    try {
      return await work();
    } catch (error) {
      app.fail(error);
      return null;
    }
  },

  /** A sentence of the server: a banner when nothing works any more, else a short message. */
  fail(error) {
    if (!(error instanceof api.Refusal)) {
      say("The page failed here: see the browser's console.", "wrong");
      console.error(error);
    } else if (error.fatal) showBanner(error.message);
    else say(error.message, "wrong");
  },

  /** Open another view with some of its state, as a link would. */
  go(view, patch) {
    state.set({ ...patch, view });
    return openView();
  },
};

const views = new Map();
let shown = null;
let opening = false;
/** Whether the run could not be asked when it was last looked at. */
let lost = false;

// Banner --------------------------------------------------------------------------------------------------------------

function showBanner(text) {
  if (!$("banner").hidden && $("banner-text").textContent === text) return; // it would be read aloud again
  $("banner-text").textContent = text;
  $("banner").hidden = false;
}

function hideBanner() {
  lost = false;
  $("banner").hidden = true;
}

// Runs ----------------------------------------------------------------------------------------------------------------

/** Open what the address names; after a failure, the same again. */
async function open() {
  opening = true;
  try {
    app.runs = await api.runs();
    const names = app.runs.map(({ name }) => name);
    if (state.get("run") && !names.includes(state.get("run"))) say(`There is no run ${state.get("run")} on this page.`, "wrong");
    app.run = names.includes(state.get("run")) ? state.get("run") : names[0];
    app.otherRun = names.includes(state.get("vs")) && state.get("vs") !== app.run ? state.get("vs") : "";
    fillHeader();
    hideBanner();
    await openAbout();
  } catch (error) {
    $("run-line").replaceChildren();
    // Without the run there is nothing to show: the sentence stays, whatever the server calls it.
    if (error instanceof api.Refusal) showBanner(error.message);
    else app.fail(error);
  }
  opening = false;
  await openView();
}

async function openAbout() {
  const { run, otherRun } = app;
  if (app.about?.name !== run) forget();
  if (app.otherAbout?.name !== otherRun) app.otherAbout = null;
  const [own, other] = await Promise.allSettled([api.about(run), otherRun ? api.about(otherRun) : null]);
  if (run !== app.run) return;
  if (own.status === "rejected") throw own.reason;
  app.about = own.value;
  if (other.status === "rejected") say(`${otherRun}: ${other.reason.message}`, "wrong");
  else app.otherAbout = other.value;
  showRunLine();
}

/** Nothing of the run before may be moved while another one is opened. */
function forget() {
  shown?.hide?.();
  app.about = null;
  $("main").inert = true;
  $("run-line").replaceChildren(el("span", { class: "live" }, `opening ${app.run}`));
}

function fillHeader() {
  const label = ({ name, system, data, error }) => (error ? `${name} (cannot be opened)` : `${name} · ${system} on ${data ?? "data"}`);
  fillSelect($("run-select"), app.runs.map((run) => [run.name, label(run)]), app.run);
  const others = app.runs.filter(({ name }) => name !== app.run);
  fillSelect($("compare-select"), [["", "no other run"], ...others.map((run) => [run.name, label(run)])], app.otherRun);
}

function showRunLine() {
  const { about } = app;
  showKind(about);
  const parts = [
    el("strong", {}, about.system),
    el("span", {}, about.summary),
    el("span", {}, `${count(about.rows, "row")} of ${about.data}`),
    el("span", {}, count(about.steps, "step")),
    el("span", {}, `seed ${about.seed}`),
  ];
  if (about.training) parts.push(el("span", { class: "live" }, "training"));
  $("run-line").replaceChildren(...parts);
  $("run-line").title = about.paper;
}

/** The style sheet shows a clip as one frame that moves when it is pointed at: it needs to know how many there are. */
function showKind({ kind, shape }) {
  const root = document.documentElement;
  const frames = kind === "clip" ? shape[0] : 1;
  root.dataset.kind = frames > 1 ? kind : "still";
  root.style.setProperty("--frames", frames);
  root.style.setProperty("--still", `${(100 * Math.floor(frames / 2)) / Math.max(1, frames - 1)}%`);
  root.style.setProperty("--frame-shape", kind === "clip" ? `${shape[3]} / ${shape[2]}` : "1");
}

async function chooseRun(name) {
  const data = (each) => app.runs.find((run) => run.name === each)?.data;
  const dropped = [...OF_THE_MODEL, ...(data(name) === data(app.run) ? [] : OF_THE_DATA)];
  state.set({ ...Object.fromEntries(dropped.map((key) => [key, null])), run: name });
  if (state.get("vs") === name) state.set({ vs: null });
  await open();
}

/** While a run trains, or cannot be opened yet, look whether it changed; pictures follow quietly. */
async function watch() {
  if (document.hidden || opening || !app.run || (app.about && !app.about.training)) return;
  const { run } = app;
  let found;
  try {
    found = await api.about(run);
  } catch (error) {
    if (run === app.run && !opening) lose(error);
    return;
  }
  if (run !== app.run || opening) return;
  const before = app.about;
  app.about = before && before.steps === found.steps ? Object.assign(before, { training: found.training }) : found;
  showRunLine();
  if (!before || lost) hideBanner();
  if (app.about !== before) await tell("weights");
}

/** A run that trains was deleted, or the server stopped: said at once, not at the visitor's next move. */
function lose(error) {
  if (!(error instanceof api.Refusal)) return app.fail(error);
  if (app.about && !error.fatal) return; // only busy
  lost = true;
  showBanner(error.message);
}

// Views ---------------------------------------------------------------------------------------------------------------

function buildTabs() {
  const tabs = VIEWS.map(([id, title]) =>
    el("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`, "aria-selected": "false", onclick: () => app.go(id, {}) }, title),
  );
  $("tabs").replaceChildren(...tabs);
  roving($("tabs"), "[role=tab]")();
  const panels = VIEWS.map(([id]) => el("div", { id: `panel-${id}`, class: "view", role: "tabpanel", "aria-labelledby": `tab-${id}`, hidden: true }));
  $("main").replaceChildren(...panels);
}

function showTab(id) {
  for (const [name] of VIEWS) {
    $(`tab-${name}`).setAttribute("aria-selected", String(name === id));
    $(`tab-${name}`).tabIndex = name === id ? 0 : -1;
    $(`panel-${name}`).hidden = name !== id;
  }
}

async function openView() {
  const asked = state.get("view");
  const [id, title, load] = VIEWS.find(([name]) => name === asked) ?? VIEWS[0];
  state.set({ view: id, ...(app.run ? { run: app.run, vs: app.otherRun } : {}) });
  showTab(id);
  $("compare-choice").hidden = id !== "explore" || app.runs.length < 2;
  document.title = `${title} · ${app.run} · Unweave explorer`;
  if (shown && shown !== views.get(id)) shown.hide?.();
  const isOpen = Boolean(app.about) || id === "training";
  $("main").inert = false;
  $(`panel-${id}`).hidden = !isOpen; // what is left of another run would be taken for this one
  if (!isOpen) {
    shown = null;
    return;
  }
  await app.attempt(async () => {
    if (!views.has(id)) {
      const view = (await load()).create(app);
      if (!views.has(id)) {
        views.set(id, view);
        $(`panel-${id}`).append(view.root);
      }
    }
    if ((state.get("view") || id) !== id) return;
    shown = views.get(id);
    await shown.show();
  });
}

/** Let the view on screen know that something is new; the others look when they are opened. */
async function tell(what) {
  if (shown) await app.attempt(() => shown.changed(what));
  else await openView();
}

// Header ----------------------------------------------------------------------------------------------------------------

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("unweave-theme", theme);
  } catch {
    // Not kept where nothing may be kept.
  }
  dispatchEvent(new Event("unweave-theme"));
}

/** A file that is dropped beside the place for it must not take the page's place; text may go into fields. */
function keepPage(event) {
  const files = event.dataTransfer?.types.includes("Files");
  if (files || !event.target.closest?.("input, textarea")) event.preventDefault();
}

async function restored() {
  const same = state.get("run") === app.run && state.get("vs") === app.otherRun;
  if (same && app.about) await openView();
  else await open();
}

$("run-select").addEventListener("change", (event) => chooseRun(event.target.value));
$("compare-select").addEventListener("change", (event) => {
  state.set({ vs: event.target.value });
  open();
});
$("theme-toggle").addEventListener("click", toggleTheme);
$("retry").addEventListener("click", open);
$("skip").addEventListener("click", () => $("main").focus());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("unweave-theme")));
for (const kind of ["dragover", "drop"]) document.addEventListener(kind, keepPage);
state.restored(restored);
setInterval(watch, WATCH);
buildTabs();
open();
