// Curves of training, read again whenever the files have grown.

import { get } from "./api.js";
import { compact, lines } from "./plots.js";
import { $, make } from "./store.js";

const CHARTS = [
  { title: "Fraction of optimal", note: "acting by w alone; exact, on unseen tasks", file: "evaluation", zero: true, series: [["span", "random w"], ["boxes", "two boxes"], ["goals", "goal cells"]] },
  { title: "Fraction of optimal, GPI", note: "acting over neighbours of w", file: "evaluation", zero: true, series: [["span_gpi", "random w"], ["boxes_gpi", "two boxes"], ["goals_gpi", "goal cells"]] },
  { title: "Return", note: "of rewarded environments that pursue inferred tasks", file: "online", series: [["mean_return", "mean return"], ["regression_return", "regression"], ["search_return", "search"]] },
  { title: "Intrinsic reward", note: "φ(s′)·w: 1 is told perfectly", file: "metrics", series: [["intrinsic_reward", "φ·w"]] },
  { title: "ψ loss", note: "squared error of the successor features", file: "metrics", series: [["psi_loss", "ψ loss"]] },
  { title: "Feature concentration", note: "length of the mean of φ: near 1, φ has collapsed", file: "metrics", series: [["feature_concentration", "|mean φ|"]] },
  { title: "Speed", note: "steps per second", file: "timing", zero: true, series: [["steps_per_second", "steps/s"]] },
];
let version = null;
let curves = null;

export function setup() {
  document.addEventListener("visr-theme", draw);
  addEventListener("resize", draw);
}

export async function update(progress) {
  const { newest_steps: newest, total_steps: total } = progress;
  const words = progress.is_finished ? "Finished" : progress.is_training ? "Training now" : "Not finished, and nobody is training it";
  $("training-status").textContent = `${words}: checkpoint of step ${compact(newest)} of ${compact(total)}${progress.is_training ? "; the curves follow" : ""}.`;
  $("training-meter").style.width = `${Math.min((100 * newest) / total, 100)}%`;
  if ($("training").hidden || progress.version === version) return;
  version = progress.version;
  curves = await get("/api/curves");
  draw();
}

export function draw() {
  if (!curves || $("training").hidden) return;
  const shown = CHARTS.filter(({ file, series }) => series.some(([key]) => curves[file][key]?.some((v) => v !== null)));
  const place = $("charts");
  if (place.dataset.shown !== shown.map((c) => c.title).join()) {
    place.dataset.shown = shown.map((c) => c.title).join();
    place.replaceChildren(...shown.map(card));
  }
  shown.forEach((chart, i) => plot(chart, place.children[i].querySelector("canvas")));
  if (!shown.length) place.replaceChildren(make("p", { class: "muted" }, "No rows of metrics yet."));
}

function card(chart) {
  const canvas = make("canvas", { class: "plot", role: "img", "aria-label": chart.title });
  canvas.addEventListener("pointermove", (event) => plot(chart, canvas, event.offsetX));
  canvas.addEventListener("pointerleave", () => plot(chart, canvas));
  return make("figure", { class: "card" }, make("figcaption", {}, make("h2", {}, chart.title), make("p", { class: "muted" }, chart.note)), canvas);
}

function plot({ file, series, zero }, canvas, hover = null) {
  const columns = curves[file];
  const shown = series.filter(([key]) => columns[key]);
  lines(canvas, shown.map(([key, name], i) => ({ name, colour: `series-${i + 1}`, x: columns.num_steps, y: columns[key] })), { zero, hover, xName: "steps" });
  canvas.dataset.points = columns.num_steps.length;
}
