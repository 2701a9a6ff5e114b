// Frames marked as good or bad, from the screen and from the atlas; together they are a reward.

import { post } from "./api.js";
import { $, complain, make, setTask } from "./store.js";

const MOST = 120;
let seen = []; // what passed by unmarked: {phi}
let now = null;
let marked = []; // {phi, liked, canvas}

export function setup() {
  $("mark-good").addEventListener("click", () => mark(1));
  $("mark-bad").addEventListener("click", () => mark(-1));
}

// The frame on the screen; every few of them are kept as examples of neither.
export function offer(image, head) {
  now = { image, phi: head.phi };
  if (head.step % 5 === 0) seen.push({ phi: head.phi });
  if (seen.length > MOST) seen.shift();
}

function mark(liked) {
  if (!now) return;
  const canvas = document.createElement("canvas");
  canvas.width = Math.min(now.image?.width ?? 16, 120);
  canvas.height = now.image ? Math.round((canvas.width * now.image.height) / now.image.width) : 16;
  if (now.image) canvas.getContext("2d").drawImage(now.image, 0, 0, canvas.width, canvas.height);
  marked.push({ phi: now.phi, liked, canvas });
  show();
}

// A film's frames, each a button that turns good, bad, and back.
export function frames(film, width, height, phis, every) {
  const chosen = phis.map((_, i) => i).filter((i) => i % every === 0);
  return chosen.map((i) => {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    canvas.getContext("2d").drawImage(film, i * width, 0, width, height, 0, 0, width, height);
    return { phi: phis[i], liked: 0, canvas };
  });
}

export function record(list) {
  marked = [...marked.filter((m) => m.liked), ...list];
  show();
}

function turn(frame) {
  frame.liked = frame.liked === 0 ? 1 : frame.liked === 1 ? -1 : 0;
  show();
}

const WORDS = { 1: "✓ good", "-1": "✕ bad", 0: "–" };

function show() {
  const place = $("marks");
  place.hidden = !marked.length;
  const buttons = marked.map((frame, i) => {
    const label = `Frame ${i + 1}: ${{ 1: "good", "-1": "bad", 0: "unmarked" }[frame.liked]}`;
    return make("button", { class: "mark", "data-liked": frame.liked, "aria-label": label, onclick: () => turn(frame) }, frame.canvas, make("span", {}, WORDS[frame.liked]));
  });
  const count = marked.filter((m) => m.liked).length;
  place.replaceChildren(
    make("h2", {}, "Marked frames ", make("span", { class: "muted" }, "click one to turn it good, bad, or neither")),
    make("div", { class: "strip" }, ...buttons),
    make("div", { class: "row" },
      make("button", { class: "primary", onclick: infer, disabled: !count }, `Infer a task from ${count} marks`),
      make("button", { onclick: () => { marked = []; show(); } }, "Forget them")),
  );
}

async function infer() {
  const all = [...marked, ...seen.map(({ phi }) => ({ phi, liked: 0 }))].slice(0, 400);
  const request = { kind: "marks", phi: all.map((m) => m.phi), liked: all.map((m) => m.liked) };
  try {
    setTask({ ...(await post("/api/task", request)), request });
    complain("watch-error", null);
  } catch (error) {
    complain("watch-error", error);
  }
}
