/** Codes and the knobs that turn them. A knob's value is a number; of a simplex it is the number of the category. */

const REACH = 3;
export const STRIP_REACH = 2;
const STRIP_PLACES = 9;

/** Knobs from the most to the least informative. */
export const ordered = (about) => [...about.knobs].sort((a, b) => b.nats - a.nats);

export const isUsed = (about, knob) => knob.nats >= about.used;

/** The knobs worth a strip of pictures: those in use, or the best few when none is. */
export function active(about) {
  const all = ordered(about);
  const used = all.filter((knob) => isUsed(about, knob));
  return used.length ? used : all.slice(0, 5);
}

export const findKnob = (about, name) => about.knobs.find((knob) => knob.name === name) ?? null;

/** Room for the longest name, in letters of the fixed width that names have. */
export const nameWidth = (knobs) => `${Math.max(...knobs.map(({ name }) => name.length))}ch`;

export const realKnobs = (about) => ordered(about).filter((knob) => knob.kind === "real");

const average = (numbers) => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;

/** Mean and deviation of a knob over the data; of one that spans steps of time, their averages. */
function scale(about, knob) {
  const mean = average(knob.columns.map((column) => about.mean[column]));
  const deviation = average(knob.columns.map((column) => about.deviation[column]));
  return { mean, deviation: deviation > 1e-9 ? deviation : 1 };
}

export function range(about, knob, reach = REACH) {
  const { mean, deviation } = scale(about, knob);
  return { low: mean - reach * deviation, high: mean + reach * deviation };
}

/** How many categories a simplex has. */
export const categories = (knob) => knob.columns.length / knob.steps;

/** Share of each category of a simplex, averaged over steps of time. */
export function shares(code, knob) {
  const width = categories(knob);
  return Array.from({ length: width }, (_, category) =>
    average(Array.from({ length: knob.steps }, (_, step) => code[knob.columns[step * width + category]])),
  );
}

export function valueOf(code, knob) {
  if (knob.kind !== "simplex") return average(knob.columns.map((column) => code[column]));
  const found = shares(code, knob);
  return found.indexOf(Math.max(...found));
}

/** The code with one knob turned. */
export function turned(code, knob, value) {
  const made = [...code];
  const width = categories(knob);
  knob.columns.forEach((column, place) => {
    made[column] = knob.kind === "simplex" ? Number(place % width === value) : value;
  });
  return made;
}

/** The code with all of these edits: a Map from knob names to values. */
export function edited(about, code, edits) {
  let made = code;
  for (const [name, value] of edits) {
    const knob = findKnob(about, name);
    if (knob) made = turned(made, knob, value);
  }
  return made;
}

/** The values a knob takes along a strip. */
export function places(about, knob, count = STRIP_PLACES, reach = STRIP_REACH) {
  if (knob.kind === "simplex") return Array.from({ length: categories(knob) }, (_, number) => number);
  if (knob.kind === "discrete") return knob.values;
  const { low, high } = range(about, knob, reach);
  return Array.from({ length: count }, (_, place) => low + ((high - low) * place) / (count - 1));
}

export const told = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(2));

/** What a category stands for: its label, that it has none, or its place where nothing is known of the data. */
export function meaning(knob, value) {
  const found = knob.categories?.find((each) => each.value === value);
  if (found?.label) return found.label;
  if (found && knob.factor) return found.rows ? "mixed" : "unused";
  return told(value);
}

/** A knob's value in words: what a category stands for, and which of several it is where that does not say it. */
export function worded(knob, value) {
  if (!knob.categories) return told(value);
  const own = meaning(knob, value);
  const isOnly = knob.categories.filter((each) => meaning(knob, each.value) === own).length === 1;
  return isOnly ? own : `${own}, category ${told(value)}`;
}

/** The knob of another run that stands for this one: of the same name, else of the same rank by information. */
function partner(about, knob, other) {
  const named = findKnob(other, knob.name);
  if (named && named.kind === knob.kind) return named;
  const kin = (each) => ordered(each).filter(({ kind }) => kind === knob.kind);
  const rank = kin(about).findIndex(({ name }) => name === knob.name);
  return kin(other)[rank] ?? null;
}

/** A value as far from the other run's mean as it is from this one's, in deviations. */
function carried(about, knob, value, other, twin) {
  if (knob.kind === "simplex") return value % categories(twin);
  if (knob.kind === "discrete") {
    const place = Math.max(0, knob.values.indexOf(value));
    return twin.values[Math.min(place, twin.values.length - 1)];
  }
  const own = scale(about, knob);
  const its = scale(other, twin);
  return its.mean + ((value - own.mean) / own.deviation) * its.deviation;
}

/** All edits for the other run. */
export function carriedEdits(about, edits, other) {
  const found = new Map();
  for (const [name, value] of edits) {
    const knob = findKnob(about, name);
    const twin = knob && partner(about, knob, other);
    if (twin) found.set(twin.name, carried(about, knob, value, other, twin));
  }
  return found;
}

/** The other run's code moved to where a code of this run is; knobs that have no equal there stay as they are. */
export function carriedCode(about, code, other, otherCode) {
  const made = [...otherCode];
  for (const knob of about.knobs) {
    const twin = partner(about, knob, other);
    if (twin?.columns.length !== knob.columns.length || twin.steps !== knob.steps) continue;
    knob.columns.forEach((column, place) => {
      const own = { ...knob, columns: [column] };
      const its = { ...twin, columns: [twin.columns[place]] };
      made[its.columns[0]] = knob.kind === "simplex" ? code[column] : carried(about, own, code[column], other, its);
    });
  }
  return made;
}

/** "style[3]:1.2;digit:4" from edits, and back; names that this run does not have are left out. */
export function writeEdits(edits) {
  return [...edits].map(([name, value]) => `${name}:${Number(value.toFixed(4))}`).join(";");
}

export function readEdits(about, text) {
  const found = new Map();
  for (const part of text.split(";")) {
    const mark = part.lastIndexOf(":");
    const knob = findKnob(about, part.slice(0, mark));
    const value = Number(part.slice(mark + 1));
    if (knob && mark > 0 && Number.isFinite(value) && isPossible(knob, value)) found.set(knob.name, value);
  }
  return found;
}

function isPossible(knob, value) {
  if (knob.kind === "simplex") return Number.isInteger(value) && value >= 0 && value < categories(knob);
  return knob.kind !== "discrete" || knob.values.includes(value);
}
