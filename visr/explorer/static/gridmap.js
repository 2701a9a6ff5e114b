// A map of a grid on a canvas: coloured cells, walls, signs, arrows, a cursor, and an agent on a walk.

import { css, diverging, ink, readable, viridis } from "./colours.js";

const ARROWS = [[0, -1], [-1, 0], [0, 1], [1, 0]]; // up, left, down, right as (x, y)

export class GridMap {
  constructor(canvas, world, { scale = "diverging", signs = false, log = false } = {}) {
    Object.assign(this, { canvas, world, scale, signs, log });
    this.values = null;
    this.arrows = null;
    this.cursor = null;
    this.trail = [];
    this.path = null; // cells that the trail's agent walks along
    this.style = canvas.style;
    this.style.aspectRatio = `${world.width} / ${world.height}`;
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(values, arrows = this.arrows) {
    this.values = values;
    this.arrows = arrows;
    this.draw();
  }

  // [low, high] of what is drawn, over free cells.
  range() {
    const seen = this.values.filter((_, i) => this.world.free[i]);
    return [Math.min(...seen), Math.max(...seen)];
  }

  colour(value, low, high) {
    if (this.scale === "diverging") {
      const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
      return diverging(value / most);
    }
    const f = this.log ? Math.log1p : (x) => x;
    return viridis((f(value) - f(low)) / (f(high) - f(low) || 1));
  }

  draw() {
    const { canvas, world } = this;
    const width = canvas.clientWidth;
    if (!width) return;
    const cell = width / world.width;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(cell * world.height * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const [low, high] = this.values ? this.range() : [0, 0];
    const gap = cell > 14 ? 0.75 : 0;
    for (let s = 0; s < world.free.length; s++) {
      const x = (s % world.width) * cell;
      const y = Math.floor(s / world.width) * cell;
      const colour = this.values && world.free[s] ? this.colour(this.values[s], low, high) : null;
      pen.fillStyle = colour ? css(colour) : ink(world.free[s] ? "cell" : "wall");
      pen.fillRect(x + gap, y + gap, cell - 2 * gap, cell - 2 * gap);
      if (!colour) continue;
      pen.fillStyle = pen.strokeStyle = readable(colour);
      if (this.signs && this.values[s]) this.sign(pen, this.values[s], x, y, cell);
      if (this.arrows) this.arrow(pen, this.arrows[s], x + cell / 2, y + cell / 2, cell);
    }
    this.drawWalk(pen, cell);
    this.drawCursor(pen, cell);
  }

  sign(pen, value, x, y, cell) {
    if (cell < 12) return;
    pen.font = `600 ${Math.max(cell * 0.42, 9)}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(value > 0 ? "+" : "−", x + cell / 2, y + cell / 2 + 0.5);
  }

  arrow(pen, action, x, y, cell) {
    if (cell < 7) return;
    const [dx, dy] = ARROWS[action];
    const r = cell * 0.24;
    pen.globalAlpha = 0.85;
    pen.lineWidth = Math.max(cell * 0.055, 1);
    pen.lineCap = pen.lineJoin = "round";
    pen.beginPath();
    pen.moveTo(x - dx * r, y - dy * r);
    pen.lineTo(x + dx * r, y + dy * r);
    pen.moveTo(x + dx * r - (dx + dy) * r * 0.7, y + dy * r - (dy + dx) * r * 0.7);
    pen.lineTo(x + dx * r, y + dy * r);
    pen.lineTo(x + dx * r - (dx - dy) * r * 0.7, y + dy * r - (dy - dx) * r * 0.7);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  drawWalk(pen, cell) {
    if (!this.trail.length) return;
    const drawn = this.path ?? this.trail;
    const centre = (s) => [(s % this.world.width) * cell + cell / 2, Math.floor(s / this.world.width) * cell + cell / 2];
    const path = (width, colour) => {
      pen.lineWidth = width;
      pen.strokeStyle = colour;
      pen.lineCap = pen.lineJoin = "round";
      pen.beginPath();
      drawn.forEach((s, i) => pen[i ? "lineTo" : "moveTo"](...centre(s)));
      pen.stroke();
    };
    path(cell * 0.2, "rgb(0 0 0 / 55%)");
    path(cell * 0.1, "#ffffff");
    const first = centre(drawn[0]);
    if (this.path) {
      pen.beginPath();
      pen.arc(...first, cell * 0.18, 0, 7);
      pen.fillStyle = "#1d5f9f";
      pen.fill();
    }
    const [x, y] = centre(this.trail.at(-1));
    pen.beginPath();
    pen.arc(x, y, cell * 0.3, 0, 7);
    pen.fillStyle = "#e8590c";
    pen.fill();
    pen.lineWidth = Math.max(cell * 0.07, 1.5);
    pen.strokeStyle = "#ffffff";
    pen.stroke();
  }

  drawCursor(pen, cell) {
    if (!this.cursor) return;
    const { row, col, size } = this.cursor;
    const first = brushStart(row, col, size);
    pen.lineWidth = 2;
    pen.strokeStyle = ink("accent");
    pen.strokeRect(first.col * cell + 1, first.row * cell + 1, size * cell - 2, size * cell - 2);
  }

  // The cell below a pointer, or null.
  cell(event) {
    const box = this.canvas.getBoundingClientRect();
    const col = Math.floor(((event.clientX - box.left) / box.width) * this.world.width);
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.world.height);
    const inside = row >= 0 && col >= 0 && row < this.world.height && col < this.world.width;
    return inside ? { row, col } : null;
  }
}

// A brush of even size reaches up and left of its cell.
export const brushStart = (row, col, size) => ({ row: row - Math.floor(size / 2), col: col - Math.floor(size / 2) });

// The state after an action: walls and edges hold the agent.
export function moved(world, state, action) {
  const [dx, dy] = ARROWS[action];
  const col = (state % world.width) + dx;
  const row = Math.floor(state / world.width) + dy;
  const inside = row >= 0 && col >= 0 && row < world.height && col < world.width;
  return inside && world.free[row * world.width + col] ? row * world.width + col : state;
}
