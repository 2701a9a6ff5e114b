// Refinement of the painted task in the background: it starts after a pause and is asked for until it is done.

import { post } from "./api.js";

const QUIET = 150, EVERY = 120;
let wanted = null, timer = null;

export function cancel() {
  wanted = null;
  clearTimeout(timer);
}

export function refine(id, gpi, show) {
  cancel();
  wanted = id;
  timer = setTimeout(async () => {
    try {
      await post("/api/refine", { id });
      await poll(id, gpi, show);
    } catch (error) {
      if (wanted === id) show({ is_running: false, error: error.message, refinement: null, answer: null });
    }
  }, QUIET);
}

async function poll(id, gpi, show) {
  if (wanted !== id) return;
  const found = await post("/api/refined", { id, gpi: gpi() });
  if (wanted !== id) return;
  show(found);
  if (found.is_running) timer = setTimeout(() => poll(id, gpi, show).catch(() => cancel()), EVERY);
}
