// Three sentences to begin with, for each language that the demo models read; written for this project.

export const EXAMPLES = {
  de: ["ich möchte ein bier", "der hund sieht die roten äpfel", "wo ist der bahnhof"],
  en: ["i want a beer", "the dog sees the red apples", "good morning"],
  es: ["quiero una cerveza", "el perro ve las manzanas rojas", "buenos días"],
  zh: ["我想要一杯啤酒", "狗看见红苹果", "早上好"],
  "en-x-tutorial": ["hello world"], // The Random Transformer's
  fr: ["je voudrais une bière", "le chien voit les pommes rouges", "bonjour"],
};

export function examplesFor(pairs) {
  return Object.fromEntries(pairs.map((pair) => [pair, EXAMPLES[pair.split(".")[0]] ?? []]));
}
