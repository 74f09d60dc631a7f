// npm libretranslate-ts: node libretranslate-ts.mjs BASE KEY TEXT PLAIN
import libretranslate from "libretranslate-ts";

const [base, key, text, plain] = process.argv.slice(2);
const client = libretranslate.libreTranslate;
client.setApiEndpoint(base);
client.setApiKey(key);
console.log(
  JSON.stringify({
    translated: await client.translate(text, "de", "en"),
    alternatives: (await client.translate(plain, "de", "en", 2)).alternatives ?? null,
    detected: await client.detect("Ich möchte heute Abend gern ein kaltes Bier trinken"),
    languages: (await client.listLanguages()).map((each) => each.code),
    unknown: await client.translate(text, "de", "zz"),
  }),
);
