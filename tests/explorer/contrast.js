/**
 * Text whose colour is too near what lies behind it (WCAG 2, AA): [[text, ratio], ...].
 * Colours are read back from a canvas, which knows every way to write them. What is disabled, hidden or drawn by the
 * browser itself is left out.
 */
() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const read = (text) => {
    if (!known.has(text)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = text;
      context.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((each, place) => each * a + below[place] * (1 - a));
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = colour.map((each) => linear(each / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const isSeen = node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    if (!walker.currentNode.data.trim() || !isSeen) continue;
    if (node.closest(":disabled, .unseen, .toast, option, svg, .choices")) continue;
    const line = [];
    for (let each = node; each; each = each.parentElement) line.unshift(each);
    let ground = [255, 255, 255];
    let opacity = 1;
    for (const each of line) {
      const style = getComputedStyle(each);
      opacity *= Number(style.opacity);
      ground = over(read(style.backgroundColor), ground);
    }
    const style = getComputedStyle(node);
    const [r, g, b, a] = read(style.color);
    const [one, two] = [light(over([r, g, b, a * opacity], ground)), light(ground)];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < least) found.push([walker.currentNode.data.trim(), Math.round(100 * ratio) / 100]);
  }
  return found;
}
