// Three sentences to begin with, for each language that the demo models read; written for this project.

export const EXAMPLES = {
  de: ["ich möchte ein bier", "der hund sieht die roten äpfel", "wo ist der bahnhof"],
  en: ["i want a beer", "the dog sees the red apples", "good morning"],
  es: ["quiero una cerveza", "el perro ve las manzanas rojas", "buenos días"],
  zh: ["我想要一杯啤酒", "狗看见红苹果", "早上好"],
  "en-x-tutorial": ["hello world"], // The Random Transformer's
  fr: ["je voudrais une bière", "le chien voit les pommes rouges", "bonjour"],
};

// A demo's own examples go first: it knows those for certain.
export function examplesFor(models) {
  const found = {};
  for (const { demo, language_pairs: pairs } of models) {
    for (const { source, target } of pairs) {
      found[`${source}.${target}`] ??= [...new Set([...(pairs.length === 1 ? demo?.examples ?? [] : []), ...(EXAMPLES[source] ?? [])])].slice(0, 3);
    }
  }
  return found;
}
