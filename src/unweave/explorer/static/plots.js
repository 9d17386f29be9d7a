/** What all drawings share: colours of the page, ticks, legends, and canvases to download. */

import { el } from "./parts.js";

const CATEGORIES = ["#4e79d6", "#e0793b", "#35a083", "#d1557a", "#9a6fd0", "#c9a227", "#53aeda", "#8b8f99", "#7aa33a", "#b0654a"];
const SCALE = ["#4b3fa8", "#3f7fc8", "#35b0a0", "#8fc04d", "#f0c13a"];
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

let probe = null;

/** A colour of the style sheet as canvases understand it, in the present theme. */
export function colour(name) {
  probe ??= document.body.appendChild(el("span", { class: "unseen", "aria-hidden": "true" }));
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

const channels = (text) => [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));

/** A colour between the ends of the scale, part from 0 to 1. */
function onScale(part) {
  const place = Math.max(0, Math.min(1, part)) * (SCALE.length - 1);
  const below = Math.min(SCALE.length - 2, Math.floor(place));
  const [low, high] = [channels(SCALE[below]), channels(SCALE[below + 1])];
  return `rgb(${low.map((each, channel) => Math.round(each + (high[channel] - each) * (place - below))).join(",")})`;
}

export const short = (number) => {
  const size = Math.abs(number);
  if (size && (size >= 1e5 || size < 1e-3)) return number.toExponential(1).replace("e+", "e");
  return String(Number(number.toPrecision(size >= 100 ? 4 : 3)));
};

/** Round numbers between two ends. */
export function ticks(low, high, about = 5) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) found.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
  return found;
}

/** The ends of some numbers; a single one gets room on both sides. */
export function extent(numbers, margin = 0.04) {
  const found = numbers.filter((each) => Number.isFinite(each));
  if (!found.length) return [0, 1];
  let [low, high] = [Infinity, -Infinity];
  for (const each of found) [low, high] = [Math.min(low, each), Math.max(high, each)];
  const room = (high - low) * margin || Math.abs(low) * 0.1 || 1;
  return [low - room, high + room];
}

/** How a factor's values are told and coloured: {of(value), items} for a few values, {of(value), low, high} for many. */
export function colouring(factor, values) {
  const found = [...new Set(values.filter((value) => value !== null))].sort((a, b) => a - b);
  const name = (value) => factor.labels?.[value] ?? short(value);
  if (found.length <= CATEGORIES.length) {
    const of = (value) => (value === null ? colour("faint") : CATEGORIES[found.indexOf(value)]);
    return { title: factor.name, of, name, items: found.map((value) => [name(value), of(value)]) };
  }
  const [low, high] = [found[0], found.at(-1)];
  return { title: factor.name, of: (value) => (value === null ? colour("faint") : onScale((value - low) / (high - low))), name, low, high };
}

/** A canvas for a download: twice as fine, on the paper of the theme. */
export function sheet(width, height) {
  const canvas = el("canvas", { width: 2 * width, height: 2 * height });
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.fillStyle = colour("surface");
  context.fillRect(0, 0, width, height);
  return { canvas, context };
}

/** Text at a place; align as canvases call it. */
export function write(context, text, x, y, { align = "left", size = 12, ink = colour("soft"), weight = 400 } = {}) {
  context.font = `${weight} ${size}px ${FONT}`;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillStyle = ink;
  context.fillText(text, x, y);
}

/** A legend downwards from a corner. */
export function drawLegend(context, legend, x, y) {
  write(context, legend.title, x, y, { weight: 600, ink: colour("ink") });
  if (legend.items) {
    legend.items.forEach(([name, ink], place) => {
      context.fillStyle = ink;
      context.beginPath();
      context.arc(x + 5, y + 20 + 18 * place, 4.5, 0, 7);
      context.fill();
      write(context, name, x + 16, y + 20 + 18 * place);
    });
    return;
  }
  for (let step = 0; step < 100; step += 1) {
    context.fillStyle = onScale(1 - step / 99);
    context.fillRect(x, y + 16 + step, 10, 1.5);
  }
  write(context, legend.name(legend.high), x + 16, y + 20);
  write(context, legend.name(legend.low), x + 16, y + 112);
}
