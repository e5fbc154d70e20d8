// Draws one pool: a grid of cells on a canvas, coloured by sequence.

const WIDEST_CELL = 32; // CSS pixels

/** Colours of the page, and how each kind of cell is painted. */
class Paint {
  constructor(section, colours) {
    const style = getComputedStyle(section);
    const read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
    this.colours = colours; // by sequence
    this.bg = read("--bg", "#fff");
    this.fg = read("--fg", "#111");
    this.muted = read("--muted", "#666");
    this.line = read("--line", "#ccc");
    this.accent = read("--accent", "#0072b2");
    this.loss = read("--pool-loss", "#c2410c");
  }

  of(sequence) {
    return this.colours.get(sequence) ?? this.muted;
  }

  /** One cell in device pixels. Kinds differ by form, not by colour alone. */
  cell(ctx, cell, box, blockSize) {
    if (cell.kind === "free") return this.outline(ctx, this.line, box, 1);
    if (cell.kind === "cached") return this.bars(ctx, this.muted, box, 1);
    if (cell.kind === "leaving") return this.bars(ctx, this.fg, box, 0);
    const { x, y, width, height } = box, colour = this.of(cell.members[0]), alpha = ctx.globalAlpha;
    ctx.fillStyle = colour;
    ctx.globalAlpha = alpha * 0.25;
    ctx.fillRect(x, y, width, height);
    ctx.globalAlpha = alpha;
    if (cell.kind === "reserved") return this.outline(ctx, colour, box, 0.75);
    const filled = Math.max(1, Math.round((height * cell.stored) / blockSize));
    ctx.fillRect(x, y + height - filled, width, filled);
    if (cell.kind === "shared") this.dot(ctx, x + width / 2, y + height / 2, Math.max(1, width / 4.5));
  }

  outline(ctx, colour, { x, y, width, height }, alpha) {
    const before = ctx.globalAlpha;
    ctx.globalAlpha = before * alpha;
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1;
    ctx.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
    ctx.globalAlpha = before;
  }

  /** Thin bars, level or (slant 1) rising. */
  bars(ctx, colour, { x, y, width, height }, slant) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y, width, height);
    ctx.clip();
    ctx.globalAlpha *= 0.6;
    ctx.strokeStyle = colour;
    ctx.lineWidth = Math.max(0.75, height / 10);
    ctx.beginPath();
    for (const at of slant ? [0.5, 1, 1.5] : [0.2, 0.5, 0.8]) {
      ctx.moveTo(x, y + height * at);
      ctx.lineTo(x + width, y + height * (at - slant));
    }
    ctx.stroke();
    ctx.restore();
  }

  dot(ctx, x, y, radius) {
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    ctx.fillStyle = "#fff";
    ctx.fill();
    ctx.strokeStyle = "#000";
    ctx.lineWidth = Math.max(1, radius / 3);
    ctx.stroke();
  }
}

/** The canvas of one pool: where a cell is, which cell is under the pointer or the keyboard's cursor. */
class PoolView {
  constructor(frame, onPoint) {
    this.canvas = frame.querySelector("canvas");
    this.mark = frame.querySelector(".pool-cursor");
    this.onPoint = onPoint;
    this.cells = [];
    this.across = 1;
    this.cursor = null;
    this.drawn = { cells: [] };
    this.room = 0;
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => this.point(this.under(event)));
    canvas.addEventListener("pointerdown", (event) => this.point(this.under(event)));
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.point(null));
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && this.point(this.cursor ?? 0));
    canvas.addEventListener("blur", () => this.point(null));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  point(cell) {
    if (cell === this.cursor) return;
    this.cursor = cell;
    this.onPoint();
  }

  get lines() {
    return Math.ceil(this.cells.length / this.across);
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.across);
    const line = Math.floor(((event.clientY - box.top) / box.height) * this.lines);
    const cell = line * this.across + column;
    return column >= 0 && column < this.across && line >= 0 && cell < this.cells.length ? cell : null;
  }

  key(event) {
    const last = this.cells.length - 1, from = this.cursor ?? 0;
    const moves = {
      ArrowLeft: from - 1, ArrowRight: from + 1, ArrowUp: from - this.across, ArrowDown: from + this.across,
      Home: 0, End: last, Escape: null,
    };
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const to = moves[event.key];
    this.point(to === null || (to >= 0 && to <= last) ? to : from);
  }

  /** Draws the cells; those of the `chosen` sequence stand out. Cells that look as they did are left alone. */
  draw(paint, blockSize, chosen) {
    const { drawn, cells } = this, ctx = this.canvas.getContext("2d");
    // Of a cell, its gap included.
    const size = Math.max(1, Math.min(this.room / this.across, WIDEST_CELL * devicePixelRatio));
    if (drawn.paint !== paint || drawn.size !== size || drawn.cells.length !== cells.length) {
      this.resize(size);
      drawn.cells = [];
    }
    const standsOut = (cell, one) => one === null || cell.members.includes(one);
    cells.forEach((cell, index) => {
      const before = drawn.cells[index];
      if (before && before.owner === cell.owner && before.stored === cell.stored && before.page === cell.page &&
        standsOut(before, drawn.chosen) === standsOut(cell, chosen)) return;
      const { box, gap } = this.place(index, size);
      ctx.clearRect(box.x, box.y, box.width + gap, box.height + gap);
      ctx.globalAlpha = standsOut(cell, chosen) ? 1 : 0.25;
      paint.cell(ctx, cell, box, blockSize);
    });
    this.drawn = { cells, paint, size, chosen };
    this.markCursor();
  }

  /** How wide the grid may be. Measured when it may have changed only: asking makes the browser lay out the page. */
  measure() {
    this.room = Math.round(this.canvas.parentElement.clientWidth * devicePixelRatio);
  }

  /** Where a cell is: at whole device pixels, though the size is not whole, so that the grid fills its width. */
  place(index, size) {
    const column = index % this.across, line = Math.floor(index / this.across);
    const x = Math.round(column * size), y = Math.round(line * size);
    const gap = size >= 4.5 ? Math.max(1, Math.round(size / 10)) : 0;
    const width = Math.round((column + 1) * size) - x - gap, height = Math.round((line + 1) * size) - y - gap;
    return { box: { x, y, width, height }, gap };
  }

  resize(size) {
    const { canvas } = this;
    canvas.width = Math.round(size * this.across);
    canvas.height = Math.round(size * this.lines);
    canvas.style.width = `${canvas.width / devicePixelRatio}px`;
  }

  markCursor() {
    this.mark.hidden = this.cursor === null;
    if (this.cursor === null) return;
    const { x: left, y: top, width, height } = this.place(this.cursor, this.drawn.size).box;
    for (const [name, pixels] of Object.entries({ left, top, width, height }))
      this.mark.style[name] = `${pixels / devicePixelRatio}px`;
  }
}
