"use strict";
// Charts that follow the controls: drawn here, so that they need no picture from the server.

const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function seconds(value) {
  const [scale, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]].find(([least]) => value >= least) || [1e-9, "ns"];
  return `${Number((value / scale).toPrecision(3)).toLocaleString("en")} ${unit}`;
}

// Ticks of a logarithmic axis: the roundest numbers of which there are at least three, and no more than there is room for.
function ticks(low, high, most) {
  let found = [];
  for (const steps of [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
    const finer = [];
    for (let decade = Math.floor(Math.log10(low)); decade <= Math.ceil(Math.log10(high)); decade += 1) {
      for (const step of steps) finer.push(Number((step * 10 ** decade).toPrecision(3)));
    }
    const inside = finer.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    if (inside.length > most) break;
    found = inside;
    if (found.length >= 4) break;
  }
  return found;
}

function logScale(low, high, from, to) {
  const [start, span] = [Math.log(low), Math.log(high / low)];
  return (value) => from + ((Math.log(value) - start) / span) * (to - from);
}

function path(xs, ys, x, y) {
  return xs.map((value, at) => `${at ? "L" : "M"}${x(value).toFixed(1)} ${y(ys[at]).toFixed(1)}`).join("");
}

// Floor, roofline and estimate of a decode step over the batch, with the interval and the batch that is asked for.
function drawCurve(host, curve, words) {
  const width = Math.max(host.clientWidth, 260);
  const height = Math.round(Math.min(Math.max(0.62 * width, 220), 340));
  const edge = { left: 58, right: 14, top: 10, bottom: 42 };
  const batches = curve.batch;
  const times = [...curve.floor_s, ...curve.estimate_high_s].filter((value) => value > 0);
  const [low, high] = [Math.min(...times) / 1.15, Math.max(...times) * 1.15];
  const last = batches[batches.length - 1];
  const x = logScale(1, last, edge.left, width - edge.right);
  const y = logScale(low, high, height - edge.bottom, edge.top);
  const drawing = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  if (curve.max_batch < last) {
    const from = x(Math.max(curve.max_batch, 1));
    const [right, bottom] = [width - edge.right, height - edge.bottom];
    drawing.append(shape("rect", { class: "blocked", x: from, y: edge.top, width: right - from, height: bottom - edge.top }));
    if (right - from > 80) drawing.append(shape("text", { x: right - 4, y: bottom - 8, "text-anchor": "end" }, "does not fit"));
  }
  for (const value of ticks(low, high, 7)) {
    drawing.append(shape("line", { class: "grid", x1: edge.left, x2: width - edge.right, y1: y(value), y2: y(value) }));
    drawing.append(shape("text", { x: edge.left - 6, y: y(value) + 4, "text-anchor": "end" }, seconds(value)));
  }
  for (const value of ticks(1, last, width > 420 ? 12 : 6)) {
    drawing.append(shape("text", { x: x(value), y: height - edge.bottom + 17, "text-anchor": "middle" }, value.toLocaleString("en")));
  }
  drawing.append(shape("text", { x: (edge.left + width - edge.right) / 2, y: height - 6, "text-anchor": "middle" }, "batch, sequences"));
  const back = [...batches].reverse();
  const band = path(batches, curve.estimate_high_s, x, y) + path(back, [...curve.estimate_low_s].reverse(), x, y).replace("M", "L");
  drawing.append(shape("path", { class: "band", d: `${band}Z` }));
  for (const name of ["floor", "roofline", "estimate"]) {
    drawing.append(shape("path", { class: name, d: path(batches, curve[`${name}_s`], x, y) }));
  }
  const here = curve.at;
  if (here.batch <= last) {
    const [left, top] = [x(here.batch), y(here.estimate_s)];
    const atEnd = left > width - 120;
    drawing.append(shape("circle", { class: "here", cx: left, cy: top, r: 6 }));
    drawing.append(shape("text", { class: "here-label", x: left + (atEnd ? -10 : 10), y: top - 10, "text-anchor": atEnd ? "end" : "start" }, seconds(here.estimate_s)));
  }
  host.replaceChildren(drawing);
}
