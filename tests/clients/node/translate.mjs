// npm translate: node translate.mjs BASE KEY TEXT
import translate from "translate";
import { refused } from "./refused.mjs";

const [base, key, text] = process.argv.slice(2);
translate.engine = "libre";
translate.url = `${base}/translate`;
translate.key = key;
let translated = null;
const told = await refused(async () => {
  translated = await translate(text, { from: "de", to: "en" });
});
const unknown = await refused(() => translate(text, { from: "de", to: "fr" }));
console.log(JSON.stringify({ translated, refused: told, unknown }));
