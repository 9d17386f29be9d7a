/** Scores with their intervals, each on a scale that begins at 0. */

import { copy, button, el, icon } from "./parts.js";
import { short } from "./plots.js";

const ARROWS = { higher: ["↑", "higher is better"], lower: ["↓", "lower is better"], "": ["", ""] };

/** The end of a score's scale: 1, or a round number beyond it. */
function scaleEnd(score) {
  const top = Math.max(score.value, ...(score.interval ?? []));
  if (top <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= top);
}

function line(score) {
  const end = scaleEnd(score);
  const part = (value) => `${100 * Math.max(0, Math.min(1, value / end))}%`;
  const bar = el("span", { class: "score-bar", "aria-hidden": "true" }, el("span", { class: "score-value" }));
  bar.firstChild.style.width = part(score.value);
  if (score.interval) {
    const range = el("span", { class: "score-interval" });
    range.style.left = part(score.interval[0]);
    range.style.width = `calc(${part(score.interval[1])} - ${part(score.interval[0])})`;
    bar.append(range);
  }
  const [arrow, meaning] = ARROWS[score.better] ?? ["", ""];
  return el(
    "tr",
    { "data-score": score.name },
    el("th", { scope: "row" }, score.name.replaceAll("_", " ")),
    el("td", { class: "better", title: meaning }, el("span", { "aria-hidden": "true" }, arrow), el("span", { class: "unseen" }, meaning)),
    el("td", { class: "bar-cell" }, bar, el("span", { class: "scale-end", "aria-hidden": "true" }, short(end))),
    el("td", { class: "number" }, short(score.value)),
    el("td", { class: "number interval" }, score.interval ? `${short(score.interval[0])} to ${short(score.interval[1])}` : ""),
  );
}

/** The table of what GET scores answers, or the command that makes scores. */
export function scoreTable({ scores, skipped, notes, command }) {
  if (!scores.length) {
    return el(
      "div",
      { class: "no-scores" },
      el("p", {}, "This run has no scores yet. They come from:"),
      el("div", { class: "code-line" }, el("code", {}, command), button([icon("copy"), "Copy"], () => copy(command, "Command"), { class: "quiet" })),
    );
  }
  const head = ["score", "", "", "value", "interval"].map((text) => el("th", { scope: "col" }, text));
  const remarks = [...notes, ...Object.entries(skipped).map(([name, why]) => `${name}: ${why}`)];
  return el(
    "div",
    {},
    el("table", { class: "scores" }, el("thead", { class: "unseen" }, el("tr", {}, head)), el("tbody", {}, scores.map(line))),
    remarks.length ? el("details", { class: "remarks" }, el("summary", {}, "Notes"), remarks.map((text) => el("p", { class: "hint" }, text))) : null,
  );
}

export function scoreRows({ scores }) {
  return [
    ["score", "value", "low", "high", "better"],
    ...scores.map(({ name, value, interval, better }) => [name, value, interval?.[0] ?? "", interval?.[1] ?? "", better]),
  ];
}
