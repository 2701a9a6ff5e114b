// The agent live: frames over a websocket, its controls, and what it sees and wants beside it.

import { Live } from "./api.js";
import { offer } from "./marks.js";
import { bars, lines, number } from "./plots.js";
import { $, complain, facts, make, on, task } from "./store.js";
import { actBy } from "./taskcard.js";

const SPEEDS = [1, 2, 5, 10, 15, 30, 60, 240];
let live = null;
let now = null;
let curve = { x: [], score: [], asked: [] };
let times = [];
let wantsPlay = false;
let hasRefused = false;

export function setup() {
  $("play").addEventListener("click", toggle);
  $("step").addEventListener("click", step);
  $("restart").addEventListener("click", restart);
  $("speed").addEventListener("input", () => {
    $("speed-out").textContent = SPEEDS[$("speed").value] === 240 ? "as fast as it can" : `${speed()} steps/s`;
    live?.send("speed", { value: speed() });
  });
  $("epsilon").addEventListener("input", () => {
    $("epsilon-out").textContent = $("epsilon").value;
    live?.send("epsilon", { value: Number($("epsilon").value) });
  });
  $("gpi").addEventListener("change", () => {
    live?.send("gpi", { value: $("gpi").checked });
    actBy($("gpi").checked);
  });
  on("facts", (run) => {
    if (now) return;
    $("epsilon").value = run.epsilon;
    $("epsilon-out").textContent = `${run.epsilon}`;
    $("gpi").checked = run.gpi;
    $("speed").value = run.grid || run.env.startsWith("MinAtar/") ? 3 : run.env.startsWith("ALE/") ? 4 : 5;
    $("speed-out").textContent = `${speed()} steps/s`;
  });
  on("task", (chosen) => chosen && pursue(chosen));
  $("screen").addEventListener("click", pickGoal);
  document.addEventListener("visr-theme", plot);
  document.addEventListener("visibilitychange", () => document.hidden && pause());
}

const speed = () => SPEEDS[$("speed").value];

// Called whenever the view is shown; the first time it takes a seat.
export function open() {
  live ||= new Live({ opened, moment, refused });
  plot();
}

function refused(words) {
  hasRefused = true;
  complain("watch-error", words);
}

// A new connection knows nothing: tell it how things stood.
function opened() {
  complain("watch-error", null);
  if (task()) pursue(task());
  live.send("speed", { value: speed() });
  live.send("epsilon", { value: Number($("epsilon").value) });
  live.send("gpi", { value: $("gpi").checked });
  if (Number($("seed").value)) restart();
  if (wantsPlay) live.send("play");
}

function pursue({ id, w }) {
  live?.send("task", { id, w });
  curve = { x: [], score: [], asked: [] };
}

// One action of one's own; the episode becomes a demonstration.
export function drive(action) {
  if (wantsPlay) pause();
  live?.send("act", { action });
}

// What the server remembers of this page's episode.
export const session = () => now?.session ?? "";

// On the grid a click is a goal.
function pickGoal(event) {
  const grid = facts().grid;
  if (!grid) return;
  const box = $("screen").getBoundingClientRect();
  const row = Math.floor(((event.clientY - box.top) / box.height) * grid.height);
  const col = Math.floor(((event.clientX - box.left) / box.width) * grid.width);
  document.dispatchEvent(new CustomEvent("visr-goal", { detail: `${row},${col}` }));
}

function toggle() {
  wantsPlay ? pause() : play();
}

export function play() {
  wantsPlay = true;
  live?.send("play");
  showPlaying();
}

export function pause() {
  wantsPlay = false;
  live?.send("pause");
  showPlaying();
}

function showPlaying() {
  $("play").textContent = wantsPlay ? "Pause" : "Play";
  $("play").setAttribute("aria-pressed", wantsPlay);
}

function step() {
  if (wantsPlay) pause();
  live?.send("step");
}

function restart() {
  live?.send("restart", { seed: Math.min(Math.max(Math.floor(Number($("seed").value)) || 0, 0), 2147483647) });
}

export function shortcut(key) {
  if (key === " ") toggle();
  else if (key === "ArrowRight") step();
  else if (key === "r") restart();
  else if (key === "g") $("mark-good").click();
  else if (key === "b") $("mark-bad").click();
  else return false;
  return true;
}

let latest = null;
let isDrawing = false;

// Numbers of every frame count; of the pictures, only the newest is drawn when the browser has time for one.
function moment(head, picture) {
  live.send("seen");
  if (head.step === 0 || head.step < (now?.step ?? 0)) curve = { x: [], score: [], asked: [] };
  now = head;
  if (hasRefused) complain("watch-error", null); // not what a request for a task was told
  hasRefused = false;
  curve.x.push(head.step);
  curve.score.push(head.score);
  curve.asked.push(head.asked_return);
  if (curve.x.length > 3000) for (const name in curve) curve[name] = curve[name].filter((_, i) => i % 2 === 0);
  times.push(performance.now());
  times = times.slice(-30);
  latest = { head, picture };
  if (!isDrawing) requestAnimationFrame(render);
  isDrawing = true;
}

async function render() {
  const { head, picture } = latest;
  const image = picture ? await createImageBitmap(picture) : null;
  draw(image, head);
  offer(image, head);
  $("now-step").textContent = head.step;
  $("now-asked").textContent = number(head.asked_return);
  $("now-words").textContent = head.asked && `Asked return: the sum of ${head.asked}.`;
  $("now-environment").hidden = Boolean(facts().grid); // the grid has no reward of its own
  $("now-score").textContent = number(head.score);
  $("now-own").textContent = number(head.own_score);
  const spent = times.at(-1) - times[0];
  $("now-rate").textContent = wantsPlay && times.length > 5 ? `${Math.round((1000 * (times.length - 1)) / spent)}` : "–";
  plot();
  isDrawing = latest.head !== head;
  if (isDrawing) requestAnimationFrame(render);
}

function draw(image, head) {
  const canvas = $("screen");
  canvas.hidden = !image;
  $("numbers").hidden = Boolean(image);
  if (!image) return numbers(head);
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.classList.toggle("smooth", image.width > 300);
  const [tall, wide] = head.scale;
  canvas.style.aspectRatio = `${image.width * wide} / ${image.height * tall}`;
  canvas.style.width = image.width > 300 ? "auto" : `min(100%, calc(min(62vh, 34rem) * ${(image.width * wide) / (image.height * tall)}))`;
  canvas.getContext("2d").drawImage(image, 0, 0);
  canvas.setAttribute("aria-label", `The agent at play, step ${head.step}`);
}

// Where nothing can be drawn: the observation itself.
function numbers(head) {
  const names = facts().fields;
  const rows = (head.observation || []).map((value, i) => make("div", {}, `${names[i] ?? `x${i}`}: ${number(value)}`));
  $("numbers").replaceChildren(...(rows.length ? rows : [make("div", {}, "This environment cannot draw itself.")]));
}

function plot() {
  if (!now || $("watch").hidden) return;
  const w = task()?.w ?? null;
  const names = now.phi.map((_, i) => `${i + 1}`);
  bars($("plot-phi"), now.phi, { lines: w, names });
  if (now.q) bars($("plot-q"), now.q, { names: facts().actions, chosen: now.action, symmetric: false });
  $("q-note").textContent = now.q ? `took ${facts().actions[now.action] ?? now.action}: ${number(now.q[now.action])}` : "of each action";
  lines($("plot-reward"), [
    { name: "asked", colour: "series-1", x: curve.x, y: curve.asked },
    ...(facts().grid ? [] : [{ name: "environment's own", colour: "series-2", x: curve.x, y: curve.score }]),
  ], { zero: true, xName: "steps" });
}
