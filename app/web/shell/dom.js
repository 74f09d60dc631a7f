// Elements are made here and nowhere from text: whatever a user or a model wrote becomes textContent.

const SVG = "http://www.w3.org/2000/svg";

export function el(name, options = {}, ...children) {
  return filled(document.createElement(name), options, children);
}

export function svg(name, options = {}, ...children) {
  return filled(document.createElementNS(SVG, name), options, children);
}

function filled(element, options, children) {
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") Object.entries(value).forEach(([name, each]) => element.style.setProperty(name, each));
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Only touches the document where something differs: a live region speaks of every change, a field loses its caret.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return element;
}

// A canvas of so many CSS pixels, sharp on any screen; cleared, and its context scaled to CSS pixels.
export function sized(canvas, width, height) {
  const ratio = Math.min(3, devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

const swatch = el("i", { hidden: true });

// What a colour is called in the style sheet, as the current theme has it.
export function ink(name) {
  swatch.style.color = `var(${name})`;
  if (!swatch.isConnected) document.body.append(swatch);
  return getComputedStyle(swatch).color;
}
