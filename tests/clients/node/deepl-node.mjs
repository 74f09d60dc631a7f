// npm deepl-node: node deepl-node.mjs BASE KEY TEXT LINES
import * as deepl from "deepl-node";
import { refused } from "./refused.mjs";

const [serverUrl, key, text, lines] = process.argv.slice(2);
const client = new deepl.DeepLClient(key, { serverUrl, maxRetries: 0 });
const told = {};
told.refused = await refused(async () => {
  const one = await client.translateText(text, "de", "en-US");
  told.translated = { text: one.text, language: one.detectedSourceLang, billed: one.billedCharacters };
  told.several = (await client.translateText([text, lines], null, "en-GB")).map((each) => each.text);
  told.sources = (await client.getSourceLanguages()).map((each) => each.code);
  told.targets = (await client.getTargetLanguages()).map((each) => each.code);
  told.limited = (await client.getUsage()).anyLimitReached();

  const terms = new deepl.GlossaryEntries({ entries: { bier: "beer", haus: "house" } });
  const made = await client.createGlossary("terms of node", "de", "en", terms);
  told.glossary = (await client.getGlossaryEntries(made)).entries();
  await client.deleteGlossary(made);
});
told.usage = await refused(() => client.getUsage());
told.unknown = await refused(() => client.translateText(text, "de", "fr"));
console.log(JSON.stringify(told));
