// What deepl-node's own suite checks, written anew, for npm's package is published without it: its 103 tests that ask a
// server other than DeepL's, and not its 45 of files and documents on the client's side. node deepl-suite.mjs BASE TEXTS
import "./deepl/general.mjs";
import "./deepl/texts.mjs";
import "./deepl/documents.mjs";
import "./deepl/glossaries.mjs";
import { run } from "./suite.mjs";

await run();
