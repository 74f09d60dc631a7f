// A long text goes to the server in parts, a few lines at a time. What has been translated once is kept, so that after
// a change only the lines that differ are sent again, and a failure loses nothing.

import { aborted, post } from "../shell/api.js";

const LONG = 1000; // characters (code points) from which a text goes in parts
const LONGEST_LINE = 3000; // a longer line is cut, at the end of a sentence where there is one
const PART_CHARACTERS = 1200;
const PART_LINES = 32;
const AT_ONCE = 2;
const MOST_KEPT = 20000;
const TRIES = 6;

const translated = new Map(); // of lines: {text, notices, finish}

export function isLong(text) {
  return text.length > LONG && Array.from(text).length > LONG;
}

// The text as lines: [{text, start}] with their places in code points; joined they are the text again, breaks included.
export function linesOf(text) {
  let start = 0;
  return (text.match(/[^\n]*\n|[^\n]+$/g) ?? []).flatMap(cut).map((line) => {
    const found = { text: line, start };
    start += Array.from(line).length;
    return found;
  });
}

function cut(line) {
  if (line.length <= LONGEST_LINE) return [line];
  const pieces = [];
  let rest = line;
  while (rest.length > LONGEST_LINE) {
    const window = rest.slice(0, LONGEST_LINE);
    const ends = [/^[^]*[.!?…][”"’»)]*\s+/u, /^[^]*[。！？；]/u, /^[^]*\s/u, /^[^]*[^\uD800-\uDBFF]/u];
    const piece = ends.map((end) => window.match(end)?.[0]).find((found) => found?.length > LONGEST_LINE / 4) ?? window;
    pieces.push(piece);
    rest = rest.slice(piece.length);
  }
  return [...pieces, rest];
}

// Calls told({target, done, total, notices}) after each part; done and total count characters. body: the fields of
// POST /translate beside `q`.
export async function inParts(text, body, signal, told) {
  const about = JSON.stringify(body);
  const lines = linesOf(text);
  const keyOf = (line) => `${about}\n${line.text}`;
  const blank = (line) => !line.text.trim();
  const waiting = [...new Map(lines.filter((line) => !blank(line) && !translated.has(keyOf(line))).map((line) => [line.text, line])).values()];
  const report = () => told(joined(lines, (line) => (blank(line) ? { text: line.text, notices: [], finish: "stop" } : translated.get(keyOf(line)))));
  forget();
  report();
  const ask = (part) => patiently(() => post("translate", { ...body, q: part.map((line) => bare(line.text)) }, signal), signal);
  const work = async () => {
    for (let part = nextPart(waiting); part.length; part = nextPart(waiting)) {
      const answer = await ask(part).catch((error) => {
        waiting.length = 0; // what failed for one part would fail for the next
        throw error;
      });
      part.forEach((line, i) => translated.set(keyOf(line), {
        text: line.text.replace(bare(line.text), () => answer.translatedText[i]),
        notices: answer.notices?.[i] ?? [],
        finish: answer.finishReason?.[i] ?? "stop",
      }));
      report();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

// White space around a line stays here: it is the same in every language.
function bare(text) {
  return text.trim();
}

function nextPart(waiting) {
  const part = [];
  let characters = 0;
  while (waiting.length && part.length < PART_LINES && (!part.length || characters + waiting[0].text.length <= PART_CHARACTERS)) {
    characters += waiting[0].text.length;
    part.push(waiting.shift());
  }
  return part;
}

// The beginning as far as it goes; a gap before what is known already is shown as one.
function joined(lines, answerOf) {
  const answers = lines.map(answerOf);
  const last = answers.findLastIndex(Boolean);
  const sizes = lines.map((line) => Array.from(line.text).length);
  const sum = (chosen) => sizes.reduce((total, size, i) => total + (chosen(i) ? size : 0), 0);
  return {
    target: answers.slice(0, last + 1).map((answer, i) => answer?.text ?? `…${/\s*$/.exec(lines[i].text)[0]}`).join(""),
    done: sum((i) => answers[i]),
    total: sum(() => true),
    notices: lines.flatMap((line, i) => noticesOf(line, answers[i])),
  };
}

// Places within a line become places within the text; what concerns a whole line is given the place of that line.
function noticesOf({ text, start }, answer) {
  if (!answer) return [];
  const before = start + Array.from(/^\s*/.exec(text)[0]).length;
  const cutShort = answer.finish === "length" ? [{ code: "length" }] : [];
  return [...answer.notices, ...cutShort].map((notice) => {
    const whole = notice.start === undefined || notice.start === null;
    const from = whole ? 0 : notice.start;
    return { ...notice, start: before + from, end: before + (whole ? Array.from(text.trim()).length : notice.end) };
  });
}

// A full queue is waited for, as long as the server says; other refusals are not tried again.
async function patiently(ask, signal) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (aborted(error) || attempt === TRIES || ![429, 503].includes(error.status)) throw error;
      await pause(1000 * Math.min(30, error.retryAfter ?? attempt), signal);
    }
  }
}

function pause(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    }, { once: true });
  });
}

function forget() {
  const old = [...translated.keys()].slice(0, Math.max(0, translated.size - MOST_KEPT));
  old.forEach((key) => translated.delete(key));
}
