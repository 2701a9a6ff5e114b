// Bars and lines on canvases, in the page's colours.

import { ink } from "./colours.js";

function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
  return { pen, width, height };
}

export function number(x, digits = 2) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e6) return x.toLocaleString("en").replace("-", "−");
  if (size >= 1e6) return x.toExponential(1).replace("-", "−").replace("e+", "e");
  const text = size >= 1000 ? Math.round(x).toLocaleString("en") : size >= 100 ? x.toFixed(0) : x.toFixed(digits);
  return text.replace("-", "−");
}

// Vertical bars around zero: values, perhaps lines across (w), whiskers (errors), names, one bar chosen.
export function bars(canvas, values, { lines = null, errors = null, names = null, chosen = -1, symmetric = true } = {}) {
  const { pen, width, height } = prepared(canvas);
  if (!width || !values.length) return;
  const reach = values.map((v, i) => Math.abs(v) + Math.min(errors?.[i] ?? 0, 1));
  let high = Math.max(...(symmetric ? reach : values), ...(lines ? lines.map(Math.abs) : []), 1e-9);
  let low = symmetric ? -high : Math.min(...values);
  if (!symmetric) {
    const pad = (high - low) * 0.15 || 1;
    low -= pad;
    high += pad / 3;
  }
  const foot = names ? 16 : 2;
  const top = 6;
  const y = (v) => top + ((high - v) / (high - low)) * (height - foot - top);
  const slot = width / values.length;
  const thick = Math.min(slot * 0.66, 34);
  const fits = !names || names.every((name) => pen.measureText(name).width < slot - 2);
  const base = symmetric ? y(0) : height - foot;
  pen.strokeStyle = ink("rule");
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, Math.round(base) + 0.5);
  pen.lineTo(width, Math.round(base) + 0.5);
  pen.stroke();
  values.forEach((value, i) => {
    const middle = slot * (i + 0.5);
    pen.fillStyle = chosen === i ? ink("series-2") : symmetric && value < 0 ? ink("minus") : symmetric ? ink("plus") : ink("series-1");
    if (!symmetric && chosen !== i) pen.globalAlpha = 0.55;
    pen.fillRect(middle - thick / 2, Math.min(y(value), base), thick, Math.abs(y(value) - base));
    pen.globalAlpha = 1;
    if (errors && Number.isFinite(errors[i]) && errors[i] > 0) {
      const most = Math.min(errors[i], 1);
      stroke(pen, ink("ink"), 1, [[middle, y(value - most)], [middle, y(value + most)]]);
    }
    if (lines) stroke(pen, ink("ink"), 2, [[middle - thick / 2 - 2, y(lines[i])], [middle + thick / 2 + 2, y(lines[i])]]);
    const every = slot > 15 ? 1 : Math.ceil(30 / slot); // of narrow bars only some have room for a name
    if (names && i % every === 0) label(pen, fits || every > 1 ? names[i] : symbol(names[i]), Math.max(middle, 5), height - 3, slot * every);
  });
}

function label(pen, text, x, y, slot) {
  pen.fillStyle = ink("muted");
  pen.textAlign = "center";
  pen.fillText(text, x, y, slot - 1);
}

const ARROWS = { "no-op": "·", up: "↑", down: "↓", left: "←", right: "→", "up right": "↗", "up left": "↖", "down right": "↘", "down left": "↙" };

// A joystick's words as a sign, where there is no room for words: up right fire -> ↗•
function symbol(name) {
  const [, where, fire] = /^(.*?) ?(fire)?$/.exec(name);
  return (ARROWS[where] ?? where) + (fire ? "•" : "");
}

function stroke(pen, colour, width, points) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.lineJoin = "round";
  pen.beginPath();
  let down = false;
  for (const [x, y] of points) {
    if (y === null || !Number.isFinite(y)) {
      down = false;
      continue;
    }
    pen[down ? "lineTo" : "moveTo"](x, y);
    down = true;
  }
  pen.stroke();
}

// Lines over a common x: series are {name, colour, x, y}; the pointer reads values where `hover` is an x in pixels.
export function lines(canvas, series, { zero = false, hover = null, xName = "", range = [] } = {}) {
  const { pen, width, height } = prepared(canvas);
  if (!width) return;
  const shown = series.filter((s) => s.x.length);
  const ys = shown.flatMap((s) => s.y).filter((v) => v !== null && Number.isFinite(v));
  if (!ys.length) return;
  let low = Math.min(...ys, ...range, ...(zero ? [0] : []));
  let high = Math.max(...ys, ...range, ...(zero ? [0] : []));
  if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
  const first = Math.min(...shown.map((s) => s.x[0]));
  const last = Math.max(...shown.map((s) => s.x.at(-1)));
  const left = Math.max(...ticks(low, high).map((v) => pen.measureText(number(v)).width)) + 8;
  const [top, foot] = [20, 18];
  const px = (x) => left + ((x - first) / (last - first || 1)) * (width - left - 6);
  const py = (y) => (y === null ? null : top + ((high - y) / (high - low)) * (height - top - foot));
  pen.textAlign = "right";
  for (const value of ticks(low, high)) {
    stroke(pen, ink("rule"), 1, [[left, Math.round(py(value)) + 0.5], [width, Math.round(py(value)) + 0.5]]);
    pen.fillStyle = ink("muted");
    pen.fillText(number(value), left - 5, py(value) + 4);
  }
  pen.fillText(`${compact(last)} ${xName}`.trim(), width - 2, height - 3);
  pen.textAlign = "left";
  pen.fillText(compact(first), left, height - 3);
  for (const s of shown) stroke(pen, ink(s.colour), 1.8, s.x.map((x, i) => [px(x), py(s.y[i])]));
  const at = hover === null ? null : first + ((Math.min(Math.max(hover, left), width - 6) - left) / (width - left - 6)) * (last - first);
  if (at !== null) stroke(pen, ink("muted"), 1, [[px(at), top], [px(at), height - foot]]);
  let x = left;
  for (const s of shown) {
    const i = at === null ? s.x.length - 1 : nearest(s.x, at);
    const words = `${s.name} ${number(s.y[i])}`;
    pen.fillStyle = ink(s.colour);
    pen.fillRect(x, 5, 10, 3);
    pen.fillStyle = ink("ink");
    pen.fillText(words, x + 14, 11);
    x += pen.measureText(words).width + 28;
  }
}

// Three to five round numbers between low and high.
function ticks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step + 0);
  return found;
}

function nearest(xs, at) {
  let best = 0;
  for (let i = 1; i < xs.length; i++) if (Math.abs(xs[i] - at) < Math.abs(xs[best] - at)) best = i;
  return best;
}

export function compact(x) {
  if (x >= 1e6) return `${+(x / 1e6).toFixed(2)}M`;
  if (x >= 1e4) return `${+(x / 1e3).toFixed(1)}k`;
  return `${+x.toFixed(2)}`;
}
