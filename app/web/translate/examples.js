// Three sentences to begin with, for each language that the demo models read; written for this project.

export const EXAMPLES = {
  de: ["Ich möchte ein Bier.", "Der Hund sieht die roten Äpfel.", "Wo ist der Bahnhof?"],
  en: ["I would like a beer.", "The dog sees the red apples.", "Good morning!"],
  es: ["Quiero una cerveza.", "El perro ve las manzanas rojas.", "¡Buenos días!"],
  zh: ["我想要一杯啤酒", "狗看见红苹果", "早上好"],
  "en-x-tutorial": ["hello world"], // The Random Transformer's
  fr: ["Je voudrais une bière.", "Le chien voit les pommes rouges.", "Bonjour !"],
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
