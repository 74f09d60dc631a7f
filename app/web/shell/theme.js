// Light, dark, or as the system has it; the choice stays in this browser.

import { kept, keep } from "./kept.js";

const CHOICES = ["auto", "light", "dark"];

export function startTheme(store) {
  store.set({ theme: CHOICES.includes(kept("theme")) ? kept("theme") : "auto", painted: 0 });
  store.watch(["theme"], ({ theme, painted }) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    keep("theme", theme);
    store.set({ painted: painted + 1 });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint(store));
  let timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => repaint(store), 60);
  });
}

// Canvases do not follow a style sheet: whoever draws watches `painted`.
export function repaint(store) {
  store.set({ painted: store.get().painted + 1 });
}

export function nextTheme(theme) {
  return CHOICES[(CHOICES.indexOf(theme) + 1) % CHOICES.length];
}
