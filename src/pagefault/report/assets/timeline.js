// The time line of one run: pages that got a frame as an area, preemptions as ticks, and where we are.

/** What a preemption did, in words. */
function told([time, victim, beneficiary, how, frames, lost]) {
  const whose = victim === beneficiary ? "gave up its own" : "lost its";
  const cause = victim === beneficiary ? "after waiting for one more" : `for sequence ${beneficiary}`;
  const cost = lost ? `, ${several(lost, "token")} to compute again` : "";
  return `${duration(time)}: sequence ${victim} ${whose} ${several(frames, "frame")} ${cause} (${how}${cost})`;
}

class Lane {
  constructor(element, onSeek, onSay) {
    this.name = element.querySelector(".pool-lane-name");
    this.canvas = element.querySelector("canvas");
    this.canvas.addEventListener("pointermove", (event) => onSay(this.near(event)));
    this.canvas.addEventListener("pointerleave", () => onSay(null));
    this.canvas.addEventListener("pointerdown", (event) => onSeek(this.timeAt(event)));
  }

  timeAt(event) {
    const box = this.canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * this.span;
  }

  /** The preemption next to the pointer, at most 6 pixels away. */
  near(event) {
    const time = this.timeAt(event), reach = (6 / this.width) * this.span;
    let best = null;
    for (const preemption of this.track.preemptions) {
      const away = Math.abs(preemption[0] - time);
      if (away <= reach && (!best || away < Math.abs(best[0] - time))) best = preemption;
    }
    return best;
  }

  show(track, span) {
    this.track = track;
    this.span = span;
    this.name.textContent = track.name;
    const preempted = track.preempted ? `${several(track.preempted, "preemption")}` : "no preemption";
    this.canvas.setAttribute(
      "aria-label", `${track.name}: frames given to pages until ${duration(track.end)}; ${preempted}`);
  }

  /** See `PoolView.measure`. */
  measure() {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
  }

  draw(paint, time, said) {
    const { canvas, track } = this, ctx = canvas.getContext("2d"), scale = devicePixelRatio;
    const { width, height } = this;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    ctx.scale(scale, scale);
    const x = (at) => (at / this.span) * width, floor = height - 12, most = Math.max(...track.given, 1);
    ctx.fillStyle = paint.accent;
    ctx.globalAlpha = 0.55;
    const bin = x(track.end) / track.given.length;
    // A square root, so that the first rush does not flatten the rest.
    track.given.forEach((given, index) => {
      const tall = given ? Math.max(1, Math.sqrt(given / most) * (floor - 2)) : 0;
      ctx.fillRect(index * bin, floor - tall, Math.max(bin, 1), tall);
    });
    ctx.globalAlpha = 1;
    ctx.fillStyle = paint.line;
    ctx.fillRect(0, floor, x(track.end), 1);
    for (const preemption of track.preemptions) this.tick(ctx, paint, x(preemption[0]), floor, preemption === said);
    ctx.fillStyle = paint.muted;
    ctx.fillRect(Math.min(x(track.end), width - 1), 2, 1, height - 4);
    ctx.fillStyle = paint.fg;
    ctx.fillRect(Math.min(x(time), width - 1.5) - 0.75, 0, 1.5, height);
  }

  /** A small arrow head under the area; the one spoken of is larger. */
  tick(ctx, paint, x, floor, said) {
    const wide = said ? 5 : 2.5;
    ctx.fillStyle = said ? paint.fg : paint.loss;
    ctx.beginPath();
    ctx.moveTo(x, floor + 1);
    ctx.lineTo(x - wide, floor + 11);
    ctx.lineTo(x + wide, floor + 11);
    ctx.fill();
  }
}
