// Draws one pool: a grid of cells on a canvas, coloured by sequence.

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

  /** One cell, `size` pixels wide, in device pixels. Kinds differ by form, not by colour alone. */
  cell(ctx, cell, x, y, size, blockSize) {
    const gap = size >= 5 ? Math.max(1, Math.round(size / 10)) : 0;
    const side = size - gap;
    if (cell.kind === "free") return this.outline(ctx, this.line, x, y, side, 1);
    if (cell.kind === "cached") return this.bars(ctx, this.muted, x, y, side, 1);
    if (cell.kind === "leaving") return this.bars(ctx, this.muted, x, y, side, 0);
    const colour = this.of(cell.members[0]), alpha = ctx.globalAlpha;
    ctx.fillStyle = colour;
    ctx.globalAlpha = alpha * 0.25;
    ctx.fillRect(x, y, side, side);
    ctx.globalAlpha = alpha;
    if (cell.kind === "reserved") return this.outline(ctx, colour, x, y, side, 0.75);
    const filled = Math.max(1, Math.round((side * cell.stored) / blockSize));
    ctx.fillRect(x, y + side - filled, side, filled);
    if (cell.kind === "shared") this.dot(ctx, x + side / 2, y + side / 2, Math.max(1, side / 4.5));
  }

  outline(ctx, colour, x, y, side, alpha) {
    const before = ctx.globalAlpha;
    ctx.globalAlpha = before * alpha;
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1;
    ctx.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
    ctx.globalAlpha = before;
  }

  /** Three bars, level or (slant 1) rising. */
  bars(ctx, colour, x, y, side, slant) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y, side, side);
    ctx.clip();
    ctx.strokeStyle = colour;
    ctx.lineWidth = Math.max(1, side / 8);
    ctx.beginPath();
    for (const at of slant ? [0.5, 1, 1.5] : [0.2, 0.5, 0.8]) {
      ctx.moveTo(x, y + side * at);
      ctx.lineTo(x + side, y + side * (at - slant));
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

  under(event) {
    const box = this.canvas.getBoundingClientRect(), size = this.size / devicePixelRatio;
    const column = Math.floor((event.clientX - box.left) / size), row = Math.floor((event.clientY - box.top) / size);
    const cell = row * this.across + column;
    return column >= 0 && column < this.across && row >= 0 && cell < this.cells.length ? cell : null;
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
    const width = Math.round(this.canvas.parentElement.clientWidth * devicePixelRatio);
    const size = Math.max(1, Math.min(Math.floor(width / this.across), Math.round(32 * devicePixelRatio)));
    const { drawn, cells } = this, ctx = this.canvas.getContext("2d");
    if (drawn.paint !== paint || drawn.size !== size || drawn.cells.length !== cells.length) {
      this.resize(size);
      drawn.cells = [];
    }
    const standsOut = (cell, one) => one === null || cell.members.includes(one);
    cells.forEach((cell, index) => {
      const before = drawn.cells[index];
      if (before && before.owner === cell.owner && before.stored === cell.stored && before.page === cell.page &&
        standsOut(before, drawn.chosen) === standsOut(cell, chosen)) return;
      const x = (index % this.across) * size, y = Math.floor(index / this.across) * size;
      ctx.clearRect(x, y, size, size);
      ctx.globalAlpha = standsOut(cell, chosen) ? 1 : 0.25;
      paint.cell(ctx, cell, x, y, size, blockSize);
    });
    this.drawn = { cells, paint, size, chosen };
    this.markCursor();
  }

  resize(size) {
    const { canvas } = this;
    this.size = size;
    canvas.width = size * this.across;
    canvas.height = size * Math.ceil(this.cells.length / this.across);
    canvas.style.width = `${canvas.width / devicePixelRatio}px`;
  }

  markCursor() {
    this.mark.hidden = this.cursor === null;
    if (this.cursor === null) return;
    const size = this.size / devicePixelRatio;
    const place = { left: this.cursor % this.across, top: Math.floor(this.cursor / this.across), width: 1, height: 1 };
    for (const [name, cells] of Object.entries(place)) this.mark.style[name] = `${cells * size}px`;
  }
}
