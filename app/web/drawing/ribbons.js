// Bands between two lines of tokens; how wide a band is says how much weight it stands for.

import { el, fill, svg } from "../shell/dom.js";

const WIDEST = 10;

// from, to: lists of elements; links: [{from, to, weight, marked}]. Lies behind them, in the same positioned box.
export function ribbons(box) {
  const picture = svg("svg", { class: "ribbons", "aria-hidden": "true" });
  box.prepend(picture);

  function draw(from, to, links, across) {
    const frame = box.getBoundingClientRect();
    picture.setAttribute("width", 0); // what it was would count in what the box needs
    picture.setAttribute("height", 0);
    const [width, height] = [box.scrollWidth, box.scrollHeight];
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    const point = (element, end) => {
      const place = element.getBoundingClientRect();
      const x = place.left - frame.left + box.scrollLeft;
      const y = place.top - frame.top + box.scrollTop;
      if (across) return [end ? x : x + place.width, y + place.height / 2];
      return [x + place.width / 2, end ? y : y + place.height];
    };
    fill(picture, links.filter((link) => from[link.from] && to[link.to]).map((link) => svg("path", {
      d: band(point(from[link.from], false), point(to[link.to], true), across),
      class: link.marked ? "ribbon marked" : "ribbon",
      "stroke-width": Math.max(1, WIDEST * link.weight).toFixed(1),
      "data-from": link.from,
      "data-to": link.to,
    })));
  }

  return { element: picture, draw };
}

function band([x, y], [toX, toY], across) {
  const middle = across ? (x + toX) / 2 : (y + toY) / 2;
  const bend = across ? `${middle} ${y} ${middle} ${toY}` : `${x} ${middle} ${toX} ${middle}`;
  return `M${x} ${y}C${bend} ${toX} ${toY}`;
}

// A bar of 0 to 1 with its number, as rows of a list use it.
export function bar(share, label) {
  const width = `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%`;
  return el("span", { class: "meter" }, el("span", { class: "meter-fill", style: { width } }), el("span", { class: "meter-text" }, label));
}
