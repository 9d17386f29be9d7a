/** What the page asks of the server. Every refusal is an error whose message is the server's own sentence. */

export class Refusal extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }

  /** Whether nothing else will work either: the server or the run is gone. */
  get fatal() {
    return [0, 401, 403, 410, 500].includes(this.status);
  }
}

const GONE = "The explorer's server does not answer: see whether `unweave explore` still runs in its terminal.";

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refusal(GONE, 0);
  }
  if (answer.ok) return answer;
  throw new Refusal(await sentence(answer), answer.status);
}

async function sentence(answer) {
  const text = await answer.text().catch(() => "");
  try {
    return JSON.parse(text).error ?? text;
  } catch {
    return text || `The server answered ${answer.status}.`;
  }
}

/** The rest of an answer may be cut off when the server stops. */
async function body(answer, kind) {
  try {
    return await answer[kind]();
  } catch {
    throw new Refusal(GONE, 0);
  }
}

const json = async (path) => body(await ask(path), "json");
const base = (run) => `/api/runs/${encodeURIComponent(run)}`;
const posted = (content) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(content),
});

export const runs = async () => (await json("/api/runs")).runs;
export const about = (run) => json(base(run));
export const rows = async (run, start, count) => (await json(`${base(run)}/rows?start=${start}&count=${count}`)).rows;
export const input = (run, row) => json(`${base(run)}/input?row=${row}`);
export const draw = async (run, seed) => (await json(`${base(run)}/draw?seed=${seed}`)).code;
export const knows = (run) => json(`${base(run)}/knows`);
export const points = (run) => json(`${base(run)}/points`);
export const scores = (run) => json(`${base(run)}/scores`);
export const log = (run, since = -1) => json(`${base(run)}/log?since=${since}`);
export const operations = async () => (await json("/api/operations")).operations;
export const rowPicture = (run, row) => `${base(run)}/rows/${row}.png`;
export const blob = async (path) => body(await ask(path), "blob");

export async function upload(run, file) {
  return body(await ask(`${base(run)}/upload`, { method: "POST", body: file }), "json");
}

/** Run an operation: names, the query of its files, and the same in Python and on the shell. */
export async function operate(run, operation, given, params) {
  const content = given === null ? { params } : { rows: given, params };
  return body(await ask(`${base(run)}/operations/${operation}`, posted(content)), "json");
}

/** The link of a result as `sheet`, `png`, `gif` or `csv`. */
export function file(run, operation, kind, query) {
  return `${base(run)}/operations/${operation}.${kind}${query ? `?${query}` : ""}`;
}

/** Pictures of codes as blobs; null when a later request of the same view took this one's place. */
export async function decode(run, codes, view) {
  const answer = await ask(`${base(run)}/decode`, posted({ codes, view }));
  if (answer.status === 204) return null;
  if (codes.length === 1) return [await body(answer, "blob")];
  return parts(await body(answer, "arrayBuffer"));
}

/** Several files in one answer, each after its length in four bytes. */
function parts(buffer) {
  const view = new DataView(buffer);
  const found = [];
  for (let place = 0; place < buffer.byteLength; ) {
    const length = view.getUint32(place);
    found.push(new Blob([new Uint8Array(buffer, place + 4, length)], { type: "image/png" }));
    place += 4 + length;
  }
  return found;
}
