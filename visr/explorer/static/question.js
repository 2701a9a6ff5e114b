// "Which of these two do you like better?": two recorded films, a task after every answer.

import { post } from "./api.js";
import { requestTask, showSeconds } from "./chooser.js";
import { GridMap } from "./gridmap.js";
import { lines } from "./plots.js";
import { $, complain, facts, make } from "./store.js";

const MOST = 400;
const PER_PLOT = 2;
let answers = []; // [first step of the better, of the worse, 1 if both are as good]
let number = 0;
let now = null;
let timers = [];

export async function ask(button = null) {
  if (button) button.disabled = true;
  const isDone = showSeconds();
  try {
    now = await post("/api/question", { answers, number: number++ });
    complain("watch-error", null);
    show();
  } catch (error) {
    complain("watch-error", error);
  }
  isDone();
  if (button) button.disabled = false;
}

async function answer(better, isEqual = 0) {
  if (answers.length === MOST) return complain("watch-error", `${MOST} answers are enough; save the task.`);
  const buttons = $("question").querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  answers.push([now.pair[better], now.pair[1 - better], isEqual]);
  if (answers.every((one) => one[2])) await ask(); // no task yet: nothing was better
  else if (await requestTask({ kind: "preferences", answers: answers.slice() })) await ask();
  else answers.pop();
  for (const button of buttons) button.disabled = false;
}

function forget() {
  answers = [];
  close();
}

function close() {
  timers.forEach(clearInterval);
  $("question").hidden = true;
}

function show() {
  timers.forEach(clearInterval);
  timers = [];
  const sides = now.films.map((film, i) => {
    const name = "AB"[i];
    const place = make("div", { class: "side" });
    place.append(picture(film, name), make("button", { class: "primary", id: `prefer-${name.toLowerCase()}`, onclick: () => answer(i) }, `I like ${name} better`));
    return place;
  });
  const count = answers.length;
  $("question").replaceChildren(
    make("h2", {}, "Which of these two do you like better? ", make("span", { class: "muted" }, `${now.num_steps} recorded steps each`)),
    make("div", { class: "sides" }, ...sides),
    make("div", { class: "row" },
      make("button", { id: "as-good", onclick: () => answer(0, 1) }, "Both are as good"),
      make("button", { id: "skip-question", onclick: (event) => ask(event.target) }, "Ask another"),
      make("span", { class: "muted", id: "answer-count", role: "status" }, count ? `${count} answer${count > 1 ? "s" : ""}; the task follows them` : "no answers yet"),
      make("span", { class: "grow" }),
      make("button", { onclick: close }, "Close"),
      make("button", { onclick: forget, disabled: !count }, "Forget the answers")),
  );
  const isNew = $("question").hidden;
  $("question").hidden = false;
  draw();
  if (isNew) $("question").scrollIntoView({ block: "nearest" });
}

function picture(film, name) {
  if (film.kind === "film") {
    const shown = make("div", { class: "film", role: "img", "aria-label": `Film ${name}` });
    shown.style.cssText = `--frames: ${film.num_frames}; background-image: url(${film.film}); aspect-ratio: ${film.size[0]} / ${film.size[1]}; width: 100%`;
    return shown;
  }
  if (film.kind === "path") return make("canvas", { class: "path", role: "img", "aria-label": `Path ${name}: ${words(film.states)}` });
  const groups = Math.ceil(film.names.length / PER_PLOT);
  const plots = Array.from({ length: groups }, () => make("canvas", { class: "plot", role: "img", "aria-label": `Observations of ${name}` }));
  return make("div", {}, ...plots, make("p", { class: "muted" }, "in standard deviations from the mean"));
}

const cellName = (s) => `${Math.floor(s / facts().grid.width)},${s % facts().grid.width}`;
const words = (states) => `from ${cellName(states[0])} to ${cellName(states.at(-1))}`;

// Canvases have a size only once they are on the page.
function draw() {
  const sides = $("question").querySelectorAll(".side");
  now.films.forEach((film, i) => {
    const canvases = sides[i].querySelectorAll("canvas");
    if (film.kind === "path") walk(canvases[0], film.states);
    if (film.kind === "numbers") canvases.forEach((canvas, group) => curves(canvas, film, group));
  });
}

// The whole path, and the agent that walks it again and again.
function walk(canvas, states) {
  const map = new GridMap(canvas, facts().grid);
  let step = 0;
  const move = () => {
    map.path = states;
    map.trail = [states[Math.min(step, states.length - 1)]];
    map.draw();
    step = step > states.length + 4 ? 0 : step + 1;
  };
  move();
  timers.push(setInterval(move, 220));
}

function curves(canvas, film, group) {
  const of = (one) => one.values.slice(group * PER_PLOT, (group + 1) * PER_PLOT).flat();
  const all = now.films.flatMap(of);
  const series = film.names.slice(group * PER_PLOT, (group + 1) * PER_PLOT).map((name, i) => {
    const y = film.values[group * PER_PLOT + i];
    return { name, colour: `series-${i + 1}`, x: y.map((_, t) => t), y };
  });
  lines(canvas, series, { range: [Math.min(...all), Math.max(...all)], xName: "steps" });
}

