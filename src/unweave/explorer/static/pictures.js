/** Pictures on canvases, and requests for them of which only the latest matters. */

import { el } from "./parts.js";

/** Tells this page's pictures from those of another page of the same server. */
export const PAGE = Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) => part.toString(36)).join("");

export const pictureCanvas = (attributes = {}) => el("canvas", { class: "picture", width: 1, height: 1, ...attributes });

/** Draw a picture file; the canvas takes its size. */
export async function paint(canvas, blob) {
  const bitmap = await createImageBitmap(blob);
  fit(canvas, bitmap.width, bitmap.height);
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  bitmap.close();
}

/** Draw (C, H, W) levels from 0 to 255, what the system sees of an image of the visitor's own. */
export function paintLevels(canvas, levels) {
  const [height, width] = [levels[0].length, levels[0][0].length];
  fit(canvas, width, height);
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(width, height);
  for (let place = 0; place < width * height; place += 1) {
    const [y, x] = [Math.floor(place / width), place % width];
    for (let channel = 0; channel < 3; channel += 1) {
      pixels.data[4 * place + channel] = levels[Math.min(channel, levels.length - 1)][y][x];
    }
    pixels.data[4 * place + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
}

/** Setting a size clears a canvas, so it is set only when it differs: no flicker under a moving slider. */
export function fit(canvas, width, height) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

export const asBlob = (canvas) => new Promise((done) => canvas.toBlob(done, "image/png"));

/** One piece of work at a time and at most one waiting, the latest: a slider never queues up. */
export class Latest {
  /**
   * work:   what is done for a value; its promise is waited for
   * failed: told of an error
   */
  constructor(work, failed) {
    Object.assign(this, { work, failed, busy: false, waiting: null, done: Promise.resolve() });
  }

  /** `done` is when nothing is left to do. */
  ask(value) {
    this.waiting = { value };
    if (!this.busy) this.done = this.run();
  }

  async run() {
    this.busy = true;
    while (this.waiting) {
      const { value } = this.waiting;
      this.waiting = null;
      try {
        await this.work(value);
      } catch (error) {
        this.failed(error);
      }
    }
    this.busy = false;
  }
}
