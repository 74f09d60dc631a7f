// Reads the translation aloud with the browser's own speech, where it has a voice for the target language. Only voices
// of this device: others would send the text to their maker.

import { el, fill, setText } from "../shell/dom.js";
import { t } from "../shell/language.js";
import { keep, kept } from "../shell/kept.js";

export function speech(store) {
  const button = el("button", { class: "link", id: "listen" });
  const choice = el("select", { id: "voice", class: "small" });
  const element = el("span", { class: "tools", hidden: true }, button, choice);
  const synthesis = globalThis.speechSynthesis;
  if (!synthesis) return element;
  let speaking = 0; // counts readings, so that an ended one does not end the next

  const silence = () => {
    speaking = 0;
    synthesis.cancel();
    label();
  };
  const label = () => {
    setText(button, t(speaking ? "speech.stop" : "speech.listen"));
    button.setAttribute("aria-pressed", Boolean(speaking));
  };
  const offer = () => {
    const { pair, target, phase } = store.get();
    const voices = voicesOf(synthesis, pair.split(".")[1]);
    element.hidden = !voices.length || !target.trim() || phase === "streaming";
    choice.hidden = voices.length < 2;
    choice.setAttribute("aria-label", t("speech.voice"));
    fill(choice, voices.map((voice) => el("option", { value: voice.voiceURI }, voice.name)));
    const chosen = kept(`voice.${languageOf(pair.split(".")[1] ?? "")}`);
    choice.value = voices.some((voice) => voice.voiceURI === chosen) ? chosen : (voices.find((voice) => voice.default) ?? voices[0])?.voiceURI ?? "";
  };
  button.addEventListener("click", () => {
    if (speaking) return silence();
    const { pair, target } = store.get();
    const voice = voicesOf(synthesis, pair.split(".")[1]).find((each) => each.voiceURI === choice.value);
    const reading = (speaking = Date.now());
    const lines = target.split("\n").filter((line) => line.trim()); // engines stop within very long texts
    lines.forEach((line, i) => synthesis.speak(utterance(line, voice, () => {
      if (i < lines.length - 1 || speaking !== reading) return;
      speaking = 0;
      label();
    })));
    return label();
  });
  choice.addEventListener("change", () => {
    keep(`voice.${languageOf(store.get().pair.split(".")[1])}`, choice.value);
    silence();
  });
  synthesis.addEventListener?.("voiceschanged", offer);
  addEventListener("pagehide", () => synthesis.cancel());
  store.watch(["target", "pair", "room"], () => speaking && silence());
  store.watch(["target", "phase", "pair", "language"], () => {
    label();
    offer();
  });
  return element;
}

function utterance(text, voice, ended) {
  const made = new SpeechSynthesisUtterance(text);
  made.voice = voice;
  made.lang = voice.lang;
  made.addEventListener("end", ended);
  made.addEventListener("error", ended);
  return made;
}

function voicesOf(synthesis, language) {
  return language ? synthesis.getVoices().filter((voice) => voice.localService && languageOf(voice.lang) === languageOf(language)) : [];
}

function languageOf(code) {
  return code.toLowerCase().split(/[-_]/)[0];
}
