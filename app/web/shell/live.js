// One sentence for those who hear the page. Said after a pause, so that a fast walk says only where it ends.

let timer = 0;

export function say(sentence) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    document.getElementById("live").textContent = sentence;
  }, 120);
}
