/** The input that all views share: a row of the data, or an image of the visitor's own that travels in the link. */

import * as api from "./api.js";
import { galleryRows } from "./gallery.js";
import { asBlob, paint, paintLevels, pictureCanvas } from "./pictures.js";
import { state } from "./state.js";

/** {row} or {own}; {} for a system that reads no inputs. */
export async function currentSource(app) {
  if (!app.about.can.encode) return {};
  if (state.get("own")) return { own: state.get("own") };
  const row = state.whole("row");
  return { row: row ?? (await galleryRows(app.run))[0].row };
}

/** The input for a run: its code, the spread of its code, its factors, and how its picture is painted. */
export async function loadInput(run, about, source) {
  if (!about.can.encode) return { row: null, code: await api.draw(run, 0), spread: [], factors: {}, show: null };
  if (source.own) {
    const found = await api.upload(run, fromText(source.own));
    return { ...found, show: async (canvas) => paintLevels(canvas, found.seen) };
  }
  const [found, picture] = await Promise.all([api.input(run, source.row), api.blob(api.rowPicture(run, source.row))]);
  return { ...found, show: (canvas) => paint(canvas, picture) };
}

/** What the system sees of an image file, small enough for a link. */
export async function ownText(run, file) {
  const { seen } = await api.upload(run, file);
  const canvas = pictureCanvas();
  paintLevels(canvas, seen);
  const bytes = new Uint8Array(await (await asBlob(canvas)).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_");
}

function fromText(text) {
  let letters = "";
  try {
    letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    // A damaged link is an empty file, of which the server says that it is no image.
  }
  return new Blob([Uint8Array.from(letters, (letter) => letter.charCodeAt(0))]);
}
