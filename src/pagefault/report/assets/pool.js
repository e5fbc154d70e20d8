// Draws one pool: a grid of cells on a canvas, coloured by sequence.

/** Colours of the page, and how each kind of cell is painted. */
class Paint {
  constructor(section, palette) {
    const style = getComputedStyle(section);
    const read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
    this.palette = palette;
    this.bg = read("--bg", "#fff");
    this.fg = read("--fg", "#111");
    this.muted = read("--muted", "#666");
    this.line = read("--line", "#ccc");
    this.accent = read("--accent", "#0072b2");
    this.loss = read("--pool-loss", "#c2410c");
  }

  of(sequence) {
    return this.palette[sequence % this.palette.length];
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
  constructor(canvas, onPoint) {
    this.canvas = canvas;
    this.onPoint = onPoint;
    this.cells = [];
    this.cursor = null;
    canvas.addEventListener("pointermove", (event) => this.point(this.under(event)));
    canvas.addEventListener("pointerdown", (event) => this.point(this.under(event)));
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.point(null));
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && this.point(this.cursor ?? 0));
    canvas.addEventListener("blur", () => this.point(null));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  get columns() {
    // A power of two near the square root, so that a reserved run of 128 frames fills whole lines.
    return Math.max(1, 2 ** Math.round(Math.log2(Math.sqrt(this.cells.length || 1))));
  }

  point(cell) {
    this.cursor = cell;
    this.onPoint(cell);
  }

  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const size = this.size / devicePixelRatio;
    const column = Math.floor((event.clientX - box.left) / size), row = Math.floor((event.clientY - box.top) / size);
    const cell = row * this.columns + column;
    return column >= 0 && column < this.columns && row >= 0 && cell < this.cells.length ? cell : null;
  }

  key(event) {
    const last = this.cells.length - 1, from = this.cursor ?? 0;
    const moves = {
      ArrowLeft: from - 1, ArrowRight: from + 1, ArrowUp: from - this.columns, ArrowDown: from + this.columns,
      Home: 0, End: last, Escape: null,
    };
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const to = moves[event.key];
    this.point(to === null || (to >= 0 && to <= last) ? to : from);
  }

  /** Draws the cells; those of the `chosen` sequence stand out. */
  draw(paint, blockSize, chosen) {
    const { canvas, columns } = this;
    const rows = Math.ceil(this.cells.length / columns);
    const width = Math.round(canvas.parentElement.clientWidth * devicePixelRatio);
    this.size = Math.max(1, Math.min(Math.floor(width / columns), Math.round(32 * devicePixelRatio)));
    canvas.width = this.size * columns;
    canvas.height = this.size * rows;
    canvas.style.width = `${canvas.width / devicePixelRatio}px`;
    const ctx = canvas.getContext("2d");
    const place = (index) => [(index % columns) * this.size, Math.floor(index / columns) * this.size];
    this.cells.forEach((cell, index) => {
      const mine = chosen !== null && cell.members.includes(chosen);
      ctx.globalAlpha = chosen === null || mine ? 1 : 0.3;
      paint.cell(ctx, cell, ...place(index), this.size, blockSize);
    });
    ctx.globalAlpha = 1;
    if (this.cursor === null) return;
    const [x, y] = place(this.cursor), thick = Math.max(2, Math.round(2 * devicePixelRatio));
    for (const [colour, grown] of [[paint.bg, thick], [paint.fg, 0]]) {
      ctx.strokeStyle = colour;
      ctx.lineWidth = thick;
      ctx.strokeRect(x - grown, y - grown, this.size + 2 * grown, this.size + 2 * grown);
    }
  }
}
