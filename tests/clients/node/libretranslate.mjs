// npm libretranslate: node libretranslate.mjs BASE KEY TEXT
import libretranslate from "libretranslate";
import { refused } from "./refused.mjs";

const [apiurl, apiKey, query] = process.argv.slice(2);
const asked = { apiurl, apiKey, query, source: "de", target: "en" };
const translate = libretranslate.translate;
console.log(
  JSON.stringify({
    translated: (await translate(asked)) ?? null, // it says nothing of errors
    detected: (await translate({ ...asked, source: undefined })) ?? null,
    unknown: await refused(() => translate({ ...asked, target: "zz" })),
  }),
);
