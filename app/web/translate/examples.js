// Three sentences to begin with, for each language of the models that come with Parlance; written for this project.

import { AUTO } from "./decoding.js";

export const EXAMPLES = {
  de: ["Ich möchte ein Bier.", "Der Hund sieht die roten Äpfel.", "Wo ist der Bahnhof?"],
  en: ["I would like a beer.", "The dog sees the red apples.", "Good morning!"],
  es: ["Quiero una cerveza.", "El perro ve las manzanas rojas.", "¡Buenos días!"],
  zh: ["我想要一杯啤酒", "狗看见红苹果", "早上好"],
  "en-x-tutorial": ["hello world"], // The Random Transformer's
  fr: ["Je voudrais une bière.", "Le chien voit les pommes rouges.", "Bonjour !"],
};

// Of a pair of two models, or of a language that is detected, those of the pairs that share its source, or its target.
export function examplesOf(examples, pair) {
  const [source, target] = pair.split(".");
  const alike = Object.keys(examples).filter((each) => (source === AUTO ? each.endsWith(`.${target}`) : each.startsWith(`${source}.`)));
  const found = alike.flatMap((each) => (source === AUTO ? examples[each].slice(0, 1) : examples[each]));
  return examples[pair] ?? [...new Set(found)].slice(0, 3);
}

// The examples that a model's card names go first.
export function examplesFor(models) {
  const found = {};
  for (const { demo, language_pairs: pairs } of models) {
    for (const { source, target } of pairs) {
      found[`${source}.${target}`] ??= [...new Set([...(pairs.length === 1 ? demo?.examples ?? [] : []), ...(EXAMPLES[source] ?? [])])].slice(0, 3);
    }
  }
  return found;
}
